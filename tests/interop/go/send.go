package main

import (
	"context"
	"strconv"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func send(wanted request) {
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{wanted.Names}),
		producer.WithGroupName(wanted.Group),
		producer.WithRetry(2),
		producer.WithCredentials(credentials(wanted)),
		// Messages without a sharding key go to a random queue.
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
	)
	check(err)
	check(sender.Start())
	var answers sync.WaitGroup
	var batch []message
	for _, one := range wanted.Messages {
		if one.How == "batch" {
			batch = append(batch, one)
			continue
		}
		sendOne(sender, wanted.Topics[0], one, &answers)
	}
	if len(batch) > 0 {
		sendBatch(sender, wanted.Topics[0], batch)
	}
	answers.Wait()
	check(sender.Shutdown())
}

func sendOne(
	sender rocketmq.Producer, topic string, one message, answers *sync.WaitGroup,
) {
	switch one.How {
	case "oneway":
		check(sender.SendOneWay(context.Background(), made(topic, one)))
		say("sent", map[string]any{"body": one.Body})
	case "async":
		answers.Add(1)
		tell := func(_ context.Context, result *primitive.SendResult, err error) {
			defer answers.Done()
			check(err)
			saySent(one.Body, result)
		}
		check(sender.SendAsync(context.Background(), tell, made(topic, one)))
	default:
		result, err := sender.SendSync(context.Background(), made(topic, one))
		check(err)
		saySent(one.Body, result)
	}
}

func sendBatch(sender rocketmq.Producer, topic string, batch []message) {
	var all []*primitive.Message
	for _, one := range batch {
		all = append(all, made(topic, one))
	}
	result, err := sender.SendSync(context.Background(), all...)
	check(err)
	for number, one := range batch {
		each := *result
		each.QueueOffset += int64(number)
		saySent(one.Body, &each)
	}
}

func made(topic string, one message) *primitive.Message {
	result := primitive.NewMessage(topic, []byte(one.Body))
	if one.Tags != "" {
		result.WithTag(one.Tags)
	}
	if len(one.Keys) > 0 {
		result.WithKeys(one.Keys)
	}
	for name, value := range one.Properties {
		result.WithProperty(name, value)
	}
	if one.Delay > 0 {
		result.WithDelayTimeLevel(one.Delay)
	}
	if one.Shard != nil {
		result.WithShardingKey(strconv.Itoa(*one.Shard))
	}
	return result
}

func saySent(body string, result *primitive.SendResult) {
	say("sent", map[string]any{
		"body": body, "status": int(result.Status), "id": result.MsgID,
		"queue": result.MessageQueue.QueueId, "offset": result.QueueOffset,
	})
}
