package main

import (
	"context"
	"strings"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Decides as a message's body says: "commit", "roll back", or at a check what stands behind
// "later ".
type listener struct{}

func (listener) ExecuteLocalTransaction(one *primitive.Message) primitive.LocalTransactionState {
	return state(string(one.Body))
}

func (listener) CheckLocalTransaction(one *primitive.MessageExt) primitive.LocalTransactionState {
	say("checked", map[string]any{"body": string(one.Body)})
	return state(strings.TrimPrefix(string(one.Body), "later "))
}

func state(word string) primitive.LocalTransactionState {
	switch {
	case strings.HasPrefix(word, "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(word, "roll back"):
		return primitive.RollbackMessageState
	default:
		return primitive.UnknowState
	}
}

// Sends each message in a transaction, and answers checks until the test closes the standard input.
func transact(wanted request) {
	sender, err := rocketmq.NewTransactionProducer(
		listener{},
		producer.WithNameServer(primitive.NamesrvAddr{wanted.Names}),
		producer.WithGroupName(wanted.Group),
		producer.WithRetry(2),
	)
	check(err)
	check(sender.Start())
	for _, one := range wanted.Messages {
		result, err := sender.SendMessageInTransaction(
			context.Background(), made(wanted.Topics[0], one))
		check(err)
		saySent(one.Body, result.SendResult)
	}
	say("ready", nil)
	waitForEnd()
	check(sender.Shutdown())
}
