package bus

import (
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// Config is what a configuration file says about the bus.
type Config struct {
	// URL is one server or several, separated by commas. It is not used with an embedded server.
	URL string `yaml:"url" doc:"NATS servers, separated by commas; \"embedded\", the default of kvmesh up, runs one in this process" redact:"url"`
	// Name is how this client shows in the server's monitoring.
	Name string `yaml:"name" doc:"name of this client in NATS's own monitoring"`
	// Creds is a NATS credentials file.
	Creds string `yaml:"creds" doc:"NATS credentials file"`
	// CA, Cert and Key are PEM files.
	CA string `yaml:"ca" doc:"PEM file that signed the server's certificate"`
	// Cert and Key are shown to servers that ask.
	Cert string `yaml:"cert" doc:"PEM file with the client's certificate"`
	// Key belongs to Cert.
	Key string `yaml:"key" doc:"PEM file with the client's private key"`
	// CardTTL is the lease of worker cards. All processes must have the same.
	CardTTL time.Duration `yaml:"card_ttl" doc:"lease of a worker card; the same in every process"`
	// CardOutage is how long cards stay while this process itself cannot reach NATS. Ten minutes by default: an operator
	// has the time to bring NATS back, and a worker that dies meanwhile costs one failed attempt until its breaker opens.
	// Without a limit a fleet that has moved elsewhere would be dialled for ever.
	CardOutage time.Duration `yaml:"card_outage" doc:"how long known workers stay while NATS cannot be reached"`
	// PendingMessages and PendingBytes bound what a subscription has received and its handler has not seen.
	PendingMessages int `yaml:"pending_messages" doc:"received messages a subscription may have waiting"`
	// PendingBytes is the same in bytes.
	PendingBytes conf.Bytes `yaml:"pending_bytes" doc:"received bytes a subscription may have waiting"`
}

// Embedded is the URL that asks the hosting process for a server of its own.
const Embedded = "embedded"

// SetDefaults fills what is zero.
func (c *Config) SetDefaults() {
	conf.Default(&c.URL, nats.DefaultURL)
	conf.Default(&c.Name, "kvmesh")
	conf.Default(&c.CardTTL, 3*time.Second)
	conf.Default(&c.CardOutage, 10*time.Minute)
	conf.Default(&c.PendingMessages, 65536)
	conf.Default(&c.PendingBytes, 64*conf.MiB)
}

// minCardTTL is the shortest lease that JetStream keeps.
const minCardTTL = 100 * time.Millisecond

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var f conf.Faults
	for _, one := range strings.Split(c.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		f.Require(one == Embedded || err == nil && u.Scheme != "", "url", "a server is written nats://host:4222")
	}
	f.Require((c.Cert == "") == (c.Key == ""), "key", "cert and key belong together; set both or none")
	f.Require(c.CardTTL >= minCardTTL, "card_ttl", "must be at least %s", minCardTTL)
	f.Require(c.CardOutage >= 0, "card_outage", "must not be negative")
	f.Require(c.PendingMessages > 0, "pending_messages", "must be positive")
	f.Require(c.PendingBytes > 0, "pending_bytes", "must be positive")
	return f.Err()
}

// security reads nothing: nats opens the files at each connect, so renewed certificates are picked up.
func (c *Config) security() []nats.Option {
	var opts []nats.Option
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		opts = append(opts, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		opts = append(opts, nats.ClientCert(c.Cert, c.Key))
	}
	return opts
}

// redactedURL is the URL without passwords and tokens.
func (c *Config) redactedURL() string {
	list := strings.Split(c.URL, ",")
	for i, one := range list {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			list[i] = "(unreadable)"
			continue
		}
		if u.User != nil {
			u.User = url.User("redacted")
		}
		list[i] = u.String()
	}
	return strings.Join(list, ",")
}
