package supervise

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFreeNamesThePortThatIsTaken: every port of the table is looked at, those of the workers too.
func TestFreeNamesThePortThatIsTaken(t *testing.T) {
	t.Parallel()
	set := func(change func(p *Ports, port int)) error {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer lis.Close()
		p := Ports{Workers: []WorkerPorts{{}}} // port 0 is always free
		change(&p, lis.Addr().(*net.TCPAddr).Port)
		return p.Free()
	}
	require.NoError(t, set(func(*Ports, int) {}))
	for name, change := range map[string]func(p *Ports, port int){
		"nats":    func(p *Ports, port int) { p.NATS = port },
		"rest":    func(p *Ports, port int) { p.GatewayREST = port },
		"events":  func(p *Ports, port int) { p.Workers[0].Events = port },
		"adapter": func(p *Ports, port int) { p.Workers[0].Admin = port },
	} {
		require.ErrorContains(t, set(change), "is taken by another process", name)
	}
}
