package rpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// door is one way to reach a server; the same cases go through all of them.
type door struct {
	name string
	mem  bool
	// quiet is a server without debug lines: unary calls in memory then skip the chain.
	quiet  bool
	server func(t *testing.T) (rpc.ServerConfig, rpc.ClientConfig)
}

func doors() []door {
	return []door{
		{name: "mem", mem: true, server: func(*testing.T) (rpc.ServerConfig, rpc.ClientConfig) {
			return rpc.ServerConfig{Address: "mem://echo"}, rpc.ClientConfig{}
		}},
		{name: "direct", mem: true, quiet: true, server: func(*testing.T) (rpc.ServerConfig, rpc.ClientConfig) {
			return rpc.ServerConfig{Address: "mem://echo"}, rpc.ClientConfig{}
		}},
		{name: "unix", server: func(t *testing.T) (rpc.ServerConfig, rpc.ClientConfig) {
			return rpc.ServerConfig{Address: "unix://" + filepath.Join(t.TempDir(), "s")}, rpc.ClientConfig{}
		}},
		{name: "tcp", server: func(*testing.T) (rpc.ServerConfig, rpc.ClientConfig) {
			return rpc.ServerConfig{Address: "tcp://127.0.0.1:0"}, rpc.ClientConfig{}
		}},
		{name: "tls", server: func(t *testing.T) (rpc.ServerConfig, rpc.ClientConfig) {
			pki := newPKI(t)
			return rpc.ServerConfig{Address: "tcp://127.0.0.1:0", TLS: rpc.ServerTLS{Cert: pki.cert, Key: pki.key}},
				rpc.ClientConfig{TLS: rpc.ClientTLS{CA: pki.ca}}
		}},
		{name: "mtls", server: func(t *testing.T) (rpc.ServerConfig, rpc.ClientConfig) {
			pki := newPKI(t)
			return rpc.ServerConfig{
					Address: "tcp://127.0.0.1:0", TLS: rpc.ServerTLS{Cert: pki.cert, Key: pki.key, ClientCA: pki.ca},
				},
				rpc.ClientConfig{TLS: rpc.ClientTLS{CA: pki.ca, Cert: pki.cert, Key: pki.key}}
		}},
	}
}

// bundle is a served echo and a connection to it.
type bundle struct {
	door   door
	srv    *rpc.Server
	conn   rpc.Conn
	net    *rpc.Network
	client rpc.ClientConfig
}

// eachDoor runs a test through every door.
func eachDoor(t *testing.T, deps rpc.ServerDeps, run func(t *testing.T, e *echo, b bundle)) {
	t.Helper()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			e := &echo{}
			run(t, e, open(t, d, deps, e))
		})
	}
}

func open(t *testing.T, d door, deps rpc.ServerDeps, e *echo) bundle {
	t.Helper()
	deps.Network = rpc.NewNetwork()
	if d.quiet && deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	sc, cc := d.server(t)
	srv := kittest.Serve(t, sc, deps, e.register)
	conn, err := rpc.Dial(srv.Addr(), cc, rpc.ClientDeps{Network: deps.Network})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	connected(t, conn)
	return bundle{door: d, srv: srv, conn: conn, net: deps.Network, client: cc}
}

// connected waits until a connection over a socket stands: on a loaded machine one attempt to shake hands may be too
// few, and calls that do not wait fail with it.
func connected(t *testing.T, conn rpc.Conn) {
	t.Helper()
	over, ok := conn.(*grpc.ClientConn)
	if !ok {
		return
	}
	ctx := shortly(t)
	over.Connect()
	for state := over.GetState(); state != connectivity.Ready; state = over.GetState() {
		require.True(t, over.WaitForStateChange(ctx, state), "still %s", state)
	}
}

// shortly is a context that ends a hung test.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pki is a certificate authority and one certificate for 127.0.0.1, as files.
type pki struct{ ca, cert, key string }

func newPKI(t *testing.T) pki {
	t.Helper()
	dir := t.TempDir()
	p := pki{ca: filepath.Join(dir, "ca"), cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	for path, block := range map[string]*pem.Block{
		p.ca:   {Type: "CERTIFICATE", Bytes: caDER},
		p.cert: {Type: "CERTIFICATE", Bytes: leafDER},
		p.key:  {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return p
}
