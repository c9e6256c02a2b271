package orders

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Starts `silo dev` on a free port and returns what a client takes as its name server. It ends with
// the test, also when the test is killed.
func startSiloDev(t *testing.T) string {
	t.Helper()
	command := exec.Command("silo", "dev", "--listen", "127.0.0.1:0", "--until-eof")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	check(t, err)
	output, err := command.StdoutPipe()
	check(t, err)
	check(t, command.Start())
	t.Cleanup(func() { stop(t, command, input) })
	line, err := bufio.NewReader(output).ReadString('\n')
	check(t, err)
	address, found := strings.CutPrefix(strings.TrimSpace(line), "NAMESRV_ADDR=")
	if !found {
		t.Fatalf("silo dev said %q", line)
	}
	return address
}

func stop(t *testing.T, command *exec.Cmd, input io.Closer) {
	check(t, input.Close())
	check(t, command.Wait())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
