package supervise

import (
	"fmt"

	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Ports are the addresses of a mesh of processes on this machine.
type Ports struct {
	NATS                                 int
	GatewayREST, GatewayGRPC, GatewayAdm int
	TemplateGRPC, TemplateAdmin          int
	TokenizerGRPC, TokenizerAdmin        int
	SchedulerGRPC, SchedulerAdmin        int
	Workers                              []WorkerPorts
}

// WorkerPorts are those of one simulated worker and its adapter.
type WorkerPorts struct {
	HTTP, Events, Replay, GRPC, Admin int
}

// DefaultPorts are those of deploy/config/mesh.yaml, with n workers.
func DefaultPorts(n int) Ports {
	p := Ports{
		NATS: 4222, GatewayREST: 8080, GatewayGRPC: 8081, GatewayAdm: 8082, TemplateGRPC: 8181, TemplateAdmin: 8182,
		TokenizerGRPC: 8281, TokenizerAdmin: 8282, SchedulerGRPC: 8381, SchedulerAdmin: 8382,
	}
	for i := range n {
		base := 8400 + 10*i
		p.Workers = append(p.Workers, WorkerPorts{
			HTTP: 8000 + i, Events: base + 5, Replay: base + 6, GRPC: base + 1, Admin: base + 2,
		})
	}
	return p
}

// Free names the first port that another process holds. Without it that process would be taken for the one that starts,
// and the sentence would stand in the log file only.
func (p Ports) Free() error {
	all := []int{
		p.GatewayREST, p.GatewayGRPC, p.GatewayAdm, p.NATS, p.TemplateGRPC, p.TemplateAdmin, p.TokenizerGRPC,
		p.TokenizerAdmin, p.SchedulerGRPC, p.SchedulerAdmin,
	}
	for _, w := range p.Workers {
		all = append(all, w.HTTP, w.Events, w.Replay, w.GRPC, w.Admin)
	}
	for _, port := range all {
		lis, err := rpc.Listen(tcp(port))
		if err != nil {
			return err
		}
		lis.Close()
	}
	return nil
}

// local is a port of this machine.
func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// tcp is a port of this machine as a gRPC or admin address.
func tcp(port int) string { return "tcp://" + local(port) }

// WorkerID names the i-th simulated worker.
func WorkerID(i int) string { return fmt.Sprintf("sim-%d", i) }

// Table lists the processes of a mesh with simulated workers: those of deploy/compose/compose.yaml, with its variables.
// config is deploy/config/mesh.yaml; model is the demo model's name.
func Table(p Ports, config, natsDir string) []Process {
	env := sharedEnv(p)
	rows := []Process{
		{
			Name: "nats", Ready: local(p.NATS),
			Command: []string{"nats-server", "-a", "127.0.0.1", "-p", fmt.Sprint(p.NATS), "-js", "-sd", natsDir},
		},
		{Name: "template", Command: serve("template-svc", config), Env: env, Ready: tcp(p.TemplateAdmin)},
		{Name: "tokenizer", Command: serve("tokenizer-svc", config), Env: env, Ready: tcp(p.TokenizerAdmin)},
		{
			Name: "scheduler", Command: serve("scheduler-svc", config), Env: env, Ready: tcp(p.SchedulerAdmin),
			Needs: []string{"nats"},
		},
	}
	needs := []string{"template", "tokenizer", "scheduler"}
	for i, w := range p.Workers {
		rows = append(rows, workerRows(i, w, config, env)...)
		needs = append(needs, adapterName(i))
	}
	return append(rows, Process{
		Name: "gateway", Command: serve("gateway", config), Env: env, Ready: tcp(p.GatewayAdm), Needs: needs,
	})
}

// serve is the command line of a service's binary.
func serve(binary, config string) []string { return []string{binary, "--config", config} }

func adapterName(i int) string { return fmt.Sprintf("adapter-%d", i) }

// SimulatedName is the process of the i-th simulated worker.
func SimulatedName(i int) string { return fmt.Sprintf("vllm-%d", i) }

// AdapterName is the process of the i-th worker's adapter.
func AdapterName(i int) string { return adapterName(i) }

// workerRows are a simulated worker and its adapter.
func workerRows(i int, w WorkerPorts, config string, env []string) []Process {
	own := append([]string{
		"WORKER_ID=" + WorkerID(i),
		"WORKER_URL=http://" + local(w.HTTP),
		"ADAPTER_LISTEN=" + tcp(w.GRPC), "ADAPTER_ADDRESS=" + tcp(w.GRPC), "ADAPTER_ADMIN=" + tcp(w.Admin),
		"SIM_LISTEN=" + local(w.HTTP),
		fmt.Sprintf("SIM_EVENTS=tcp://*:%d", w.Events), fmt.Sprintf("SIM_REPLAY=tcp://*:%d", w.Replay),
		"SIM_BIND=127.0.0.1",
	}, env...)
	return []Process{
		{
			Name: SimulatedName(i), Command: serve("fakevllm", config), Env: own, Ready: local(w.HTTP),
			Needs: []string{"template", "tokenizer"},
		},
		{
			Name: adapterName(i), Command: serve("worker-adapter", config), Env: own, Ready: tcp(w.Admin),
			Needs: []string{"nats", SimulatedName(i)},
		},
	}
}

// sharedEnv fills the variables of deploy/config/mesh.yaml.
func sharedEnv(p Ports) []string {
	return []string{
		"NATS_URL=nats://" + local(p.NATS),
		"GATEWAY_REST=" + local(p.GatewayREST), "GATEWAY_LISTEN=" + tcp(p.GatewayGRPC), "GATEWAY_ADMIN=" + tcp(p.GatewayAdm),
		"TEMPLATE_LISTEN=" + tcp(p.TemplateGRPC), "TEMPLATE_ADDRESS=" + tcp(p.TemplateGRPC),
		"TEMPLATE_ADMIN=" + tcp(p.TemplateAdmin),
		"TOKENIZER_LISTEN=" + tcp(p.TokenizerGRPC), "TOKENIZER_ADDRESS=" + tcp(p.TokenizerGRPC),
		"TOKENIZER_ADMIN=" + tcp(p.TokenizerAdmin),
		"SCHEDULER_LISTEN=" + tcp(p.SchedulerGRPC), "SCHEDULER_ADDRESS=" + tcp(p.SchedulerGRPC),
		"SCHEDULER_ADMIN=" + tcp(p.SchedulerAdmin),
	}
}
