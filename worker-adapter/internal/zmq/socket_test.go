package zmq

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// property is one of a READY command.
func property(name, value string) []byte {
	b := append([]byte{byte(len(name))}, name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

func TestPeerSocket(t *testing.T) {
	t.Parallel()
	id := property("Identity", "x")
	rows := []struct {
		name string
		in   []byte
		want string
	}{
		{"none", nil, ""},
		{"alone", property("Socket-Type", "PUB"), "PUB"},
		{"case of the name does not count", property("socket-TYPE", "ROUTER"), "ROUTER"},
		{"behind another", append(id, property("Socket-Type", "XPUB")...), "XPUB"},
		{"empty", property("Socket-Type", ""), ""},
		{"name cut", []byte{11, 'S', 'o'}, ""},
		{"no size", append([]byte{1}, 'S'), ""},
		{"value cut", property("Socket-Type", "ROUTER")[:18], ""},
		{"a size beyond all", append(append([]byte{1}, 'S'), 255, 255, 255, 255, 1), ""},
	}
	for _, row := range rows {
		require.Equal(t, row.want, peerSocket(row.in), row.name)
	}
}

func TestMeets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		mine, peer string
		ok         bool
	}{
		{"SUB", "PUB", true},
		{"SUB", "XPUB", true},
		{"SUB", "", true},
		{"SUB", "ROUTER", false},
		{"SUB", "SUB", false},
		{"DEALER", "ROUTER", true},
		{"DEALER", "PUB", false},
		{"PUB", "SUB", true},
		{"ROUTER", "DEALER", true},
	} {
		err := meets(row.mine, row.peer)
		if row.ok {
			require.NoError(t, err, "%+v", row)
			continue
		}
		require.ErrorIs(t, err, ErrSocket, "%+v", row)
		require.ErrorContains(t, err, row.peer)
	}
}
