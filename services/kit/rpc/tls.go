package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// ServerTLS is a tcp:// server's identity. It is enabled by naming a certificate.
type ServerTLS struct {
	// Cert and Key are PEM files.
	Cert string `yaml:"cert" doc:"PEM file with the certificate chain; empty for no TLS"`
	// Key belongs to Cert.
	Key string `yaml:"key" doc:"PEM file with the private key"`
	// ClientCA makes clients show a certificate that it signed (mTLS).
	ClientCA string `yaml:"client_ca" doc:"PEM file; clients must show a certificate signed by it"`
}

// Validate reports everything that is wrong without reading files.
func (t *ServerTLS) Validate() error {
	var f conf.Faults
	f.Require((t.Cert == "") == (t.Key == ""), "key", "cert and key belong together; set both or none")
	f.Require(t.ClientCA == "" || t.Cert != "", "client_ca", "needs cert and key beside it")
	return f.Err()
}

// Config reads the files; nil when TLS is not enabled. REST and admin servers may use it too.
func (t *ServerTLS) Config() (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil //nolint:nilnil // no TLS is a value of its own
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s with key %s: %w", t.Cert, t.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if t.ClientCA == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs, err = loadPool(t.ClientCA)
	return c, err
}

// ClientTLS is how a client trusts a tcp:// server and shows itself. It is enabled by naming a CA.
type ClientTLS struct {
	// CA is the PEM file that must have signed the server's certificate; "system" trusts the machine's store.
	CA string `yaml:"ca" doc:"PEM file that signed the server's certificate, or \"system\"; empty for no TLS"`
	// Cert and Key are shown to servers that ask.
	Cert string `yaml:"cert" doc:"PEM file with the client's certificate, for mTLS"`
	// Key belongs to Cert.
	Key string `yaml:"key" doc:"PEM file with the client's private key"`
	// ServerName replaces the address's host in the check of the certificate.
	ServerName string `yaml:"server_name" doc:"name to expect in the certificate, if not the address's host"`
}

// Validate reports everything that is wrong without reading files.
func (t *ClientTLS) Validate() error {
	var f conf.Faults
	f.Require((t.Cert == "") == (t.Key == ""), "key", "cert and key belong together; set both or none")
	f.Require(t.CA != "" || t.Cert == "" && t.ServerName == "", "ca",
		"must be set to enable TLS; use system for the machine's store")
	return f.Err()
}

// systemCA is the CA value for the machine's own trust store.
const systemCA = "system"

// credentials reads the files. Sockets inside one machine and clients without a CA go without TLS.
func (t *ClientTLS) credentials(scheme string) (credentials.TransportCredentials, error) {
	if t.CA == "" || scheme != SchemeTCP {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != systemCA {
		pool, err := loadPool(t.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("load certificate %s with key %s: %w", t.Cert, t.Key, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return credentials.NewTLS(c), nil
}

// loadPool reads the certificates that a peer's must lead to; a file without any is an error, not an empty pool.
func loadPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load CA %s: %w", path, errors.New("no certificate in the file"))
	}
	return pool, nil
}
