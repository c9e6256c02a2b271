// Package orders is tested with RocketMQ's Go client against `silo dev`.
package orders

import (
	"context"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func TestPaidOrdersArrive(t *testing.T) {
	rlog.SetLogLevel("warn")
	names := primitive.NamesrvAddr{startSiloDev(t)}
	shop, err := rocketmq.NewProducer(
		producer.WithNameServer(names), producer.WithGroupName("shop"))
	check(t, err)
	check(t, shop.Start())
	for _, tag := range []string{"open", "paid"} {
		order := primitive.NewMessage("orders", []byte("an order that is "+tag)).WithTag(tag)
		_, err := shop.SendSync(context.Background(), order)
		check(t, err)
	}
	bodies := make(chan string, 10)
	billing, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(names),
		consumer.WithGroupName("billing"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	check(t, err)
	paid := consumer.MessageSelector{Type: consumer.TAG, Expression: "paid"}
	check(t, billing.Subscribe("orders", paid, func(
		_ context.Context, messages ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			bodies <- string(message.Body)
		}
		return consumer.ConsumeSuccess, nil
	}))
	check(t, billing.Start())
	select {
	case body := <-bodies:
		if body != "an order that is paid" {
			t.Errorf("received %q", body)
		}
	case <-time.After(30 * time.Second):
		t.Error("no order came")
	}
	check(t, billing.Shutdown())
	check(t, shop.Shutdown())
}
