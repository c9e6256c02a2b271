package main

import (
	"context"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const patience = 20 * time.Second

func started(wanted request, group string) rocketmq.Producer {
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{wanted.Names}),
		producer.WithGroupName(group),
		producer.WithCredentials(credentials(wanted)),
	)
	check(err)
	check(sender.Start())
	return sender
}

// Sends the messages as requests, and tells of the replies.
func ask(wanted request) {
	sender := started(wanted, wanted.Group)
	for _, one := range wanted.Messages {
		reply, err := sender.Request(context.Background(), patience, made(wanted.Topics[0], one))
		check(err)
		say("replied", map[string]any{"body": one.Body, "reply": string(reply.Body)})
	}
	check(sender.Shutdown())
}

// Replies to all messages. A client of Go may ask before its first heart-beat: then the broker
// does not know it yet, and the reply is sent again.
func reply(wanted request) {
	sender := started(wanted, wanted.Group+"-replies")
	group, err := rocketmq.NewPushConsumer(options(wanted)...)
	check(err)
	listener := func(
		_ context.Context, all ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		for _, one := range all {
			answer, err := consumer.CreateReplyMessage(one, nil)
			check(err)
			answer.Body = []byte("re: " + string(one.Body)) // 2.1.2 loses the body that it is given
			for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
				if _, err = sender.SendSync(context.Background(), answer); err == nil {
					break
				}
				if time.Now().After(end) {
					check(err)
				}
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	check(group.Subscribe(wanted.Topics[0], tagFilter(wanted), listener))
	check(group.Start())
	say("ready", nil)
	waitForEnd()
	check(group.Shutdown())
	check(sender.Shutdown())
}
