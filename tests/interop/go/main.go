// The Go client of RocketMQ, driven by the tests: one request as JSON in the first argument,
// one JSON object a line as the answer. See clients.py for the members of both.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type message struct {
	Body       string            `json:"body"`
	How        string            `json:"how"`
	Tags       string            `json:"tags"`
	Keys       []string          `json:"keys"`
	Properties map[string]string `json:"properties"`
	Delay      int               `json:"delay"`
	Shard      *int              `json:"shard"`
}

type request struct {
	Do         string    `json:"do"`
	Names      string    `json:"names"`
	Group      string    `json:"group"`
	Topics     []string  `json:"topics"`
	Messages   []message `json:"messages"`
	Filter     string    `json:"filter"`
	Properties []string  `json:"properties"`
	Orderly    bool      `json:"orderly"`
	Broadcast  bool      `json:"broadcast"`
	Refuse     int       `json:"refuse"`
	// Access key and secret, if requests are signed.
	Credentials []string `json:"credentials"`
	Most        int      `json:"most"`
	Queues      []struct {
		Broker string `json:"broker"`
		Queue  int    `json:"queue"`
		Count  int    `json:"count"`
	} `json:"queues"`
}

func credentials(wanted request) primitive.Credentials {
	if len(wanted.Credentials) == 0 {
		return primitive.Credentials{}
	}
	return primitive.Credentials{AccessKey: wanted.Credentials[0], SecretKey: wanted.Credentials[1]}
}

var printing sync.Mutex

func say(kind string, members map[string]any) {
	if members == nil {
		members = map[string]any{}
	}
	members["kind"] = kind
	members["at"] = time.Now().UnixMilli()
	line, err := json.Marshal(members)
	check(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func sayReceived(wanted request, one *primitive.MessageExt) {
	properties := map[string]string{}
	for _, name := range wanted.Properties {
		if value := one.GetProperty(name); value != "" {
			properties[name] = value
		}
	}
	say("received", map[string]any{
		"topic": one.Topic, "body": string(one.Body), "tags": one.GetTags(),
		"keys": one.GetKeys(), "properties": properties, "queue": one.Queue.QueueId,
		"offset": one.QueueOffset, "times": one.ReconsumeTimes,
	})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Returns when the test closes the standard input.
func waitForEnd() {
	_, err := io.Copy(io.Discard, os.Stdin)
	check(err)
}

func main() {
	rlog.SetLogLevel("warn")
	var wanted request
	check(json.Unmarshal([]byte(os.Args[1]), &wanted))
	switch wanted.Do {
	case "send":
		send(wanted)
	case "transact":
		transact(wanted)
	case "consume":
		consume(wanted)
	case "pull":
		pull(wanted)
	case "poll":
		poll(wanted)
	case "ask":
		ask(wanted)
	case "reply":
		reply(wanted)
	default:
		check(fmt.Errorf("no such request: %s", wanted.Do))
	}
	say("done", nil)
}
