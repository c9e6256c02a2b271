package main

import (
	"context"
	"errors"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func options(wanted request) []consumer.Option {
	return []consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{wanted.Names}),
		consumer.WithGroupName(wanted.Group),
		consumer.WithCredentials(credentials(wanted)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
}

func tagFilter(wanted request) consumer.MessageSelector {
	return consumer.MessageSelector{Type: consumer.TAG, Expression: wanted.Filter}
}

func consume(wanted request) {
	model := consumer.Clustering
	if wanted.Broadcast {
		model = consumer.BroadCasting
	}
	later := consumer.ConsumeRetryLater
	if wanted.Orderly {
		later = consumer.SuspendCurrentQueueAMoment
	}
	group, err := rocketmq.NewPushConsumer(append(options(wanted),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(wanted.Orderly),
		consumer.WithMaxReconsumeTimes(int32(wanted.Most)),
	)...)
	check(err)
	listener := func(
		_ context.Context, all ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		for _, one := range all {
			sayReceived(wanted, one)
			if int(one.ReconsumeTimes) < wanted.Refuse {
				return later, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	for _, topic := range wanted.Topics {
		check(group.Subscribe(topic, tagFilter(wanted), listener))
	}
	check(group.Start())
	say("ready", nil)
	waitForEnd()
	check(group.Shutdown())
}

func pullConsumer(wanted request) rocketmq.PullConsumer {
	group, err := rocketmq.NewPullConsumer(
		append(options(wanted), consumer.WithPullBatchSize(32))...)
	check(err)
	check(group.Subscribe(wanted.Topics[0], tagFilter(wanted)))
	check(group.Start())
	say("ready", nil)
	return group
}

// Pulls so many messages from the begin of each queue that the request names.
func pull(wanted request) {
	group := pullConsumer(wanted)
	for _, one := range wanted.Queues {
		queue := primitive.MessageQueue{
			Topic: wanted.Topics[0], BrokerName: one.Broker, QueueId: one.Queue,
		}
		for next := int64(0); next < int64(one.Count); {
			result, err := group.PullFrom(context.Background(), &queue, next, 7)
			check(err)
			for _, found := range result.GetMessageExts() {
				sayReceived(wanted, found)
			}
			next = result.NextBeginOffset
		}
	}
	check(group.Shutdown())
}

// Polls the queues that the group gives to this member, and acknowledges what it reads.
func poll(wanted request) {
	group := pullConsumer(wanted)
	end := make(chan struct{})
	go func() {
		waitForEnd()
		close(end)
	}()
	for {
		select {
		case <-end:
			check(group.Shutdown())
			return
		default:
		}
		found, err := group.Poll(context.Background(), 200*time.Millisecond)
		if errors.Is(err, consumer.ErrNoNewMsg) {
			continue
		}
		check(err)
		for _, one := range found.GetMsgList() {
			sayReceived(wanted, one)
		}
		group.ACK(context.Background(), found, consumer.ConsumeSuccess)
	}
}
