// What RocketMQ's gRPC client for Node does at a proxy. The arguments are the proxy's address and
// names of topics. A topic is called as its check, behind the first dash, and has a group of its
// name. Each check prints `passed TOPIC`, or `failed TOPIC` and why. They run at the same time.
'use strict';

const assert = require('node:assert');
const { setTimeout: sleep } = require('node:timers/promises');
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const COMMIT = 1;
const ROLLBACK = 2;
const SOON_MS = 30_000;
const INVISIBLE_MS = 30_000;
const logger = { info() {}, debug() {}, warn: console.error, error: console.error };

async function clients(topic, use, checker) {
  const place = { endpoints: process.argv[2], namespace: '', logger, requestTimeout: 10_000 };
  const producer = new Producer({ ...place, topic, checker });
  const subscriptions = new Map([[topic, '*']]);
  const consumer = new SimpleConsumer(
    { ...place, consumerGroup: topic, subscriptions, awaitDuration: 2_000 });
  await producer.startup();
  await consumer.startup();
  await use(producer, consumer);
  await consumer.shutdown();
  await producer.shutdown();
}

// Receives until there are so many, or fails.
async function receive(consumer, count, invisible = INVISIBLE_MS) {
  const found = [];
  for (const end = Date.now() + SOON_MS; found.length < count;) {
    assert(Date.now() < end, `received ${found.length} of ${count}`);
    found.push(...await consumer.receive(16, invisible));
  }
  assert.strictEqual(found.length, count);
  return found;
}

// A few more receives, as each asks one queue.
async function nothingComes(consumer) {
  for (let round = 0; round < 3; round++) {
    const found = await consumer.receive(16, INVISIBLE_MS);
    assert.deepStrictEqual(found.map(one => one.body.toString()), []);
  }
}

function made(topic, body, more = {}) {
  return { topic, body: Buffer.from(body), ...more };
}

const CHECKS = {
  // Everything of a message arrives; what is acknowledged does not come again.
  simple: topic => clients(topic, async (producer, consumer) => {
    const sent = Array.from({ length: 20 }, (_, number) => `m${number + 10}`);
    for (const body of sent) {
      const more = { tag: 't', keys: [`key-${body}`], properties: new Map([['p', body]]) };
      await producer.send(made(topic, body, more));
    }
    const found = await receive(consumer, sent.length, 10_000);
    assert.deepStrictEqual(found.map(one => one.body.toString()).sort(), sent);
    for (const one of found) {
      const body = one.body.toString();
      assert.deepStrictEqual([one.tag, one.keys, one.deliveryAttempt], ['t', [`key-${body}`], 1]);
      assert.strictEqual(one.properties.get('p'), body);
      assert(!one.corrupted);
      await consumer.ack(one);
    }
    for (const end = Date.now() + 11_000; Date.now() < end;) {
      await nothingComes(consumer);
    }
  }),

  // What is not acknowledged comes again, after a time that may be changed.
  invisible: topic => clients(topic, async (producer, consumer) => {
    await producer.send(made(topic, 'again'));
    const [first] = await receive(consumer, 1);
    const begin = Date.now();
    await consumer.changeInvisibleDuration(first, 3_000);
    const [second] = await receive(consumer, 1, 10_000);
    assert(Date.now() - begin >= 2_900);
    assert.deepStrictEqual([second.messageId, second.deliveryAttempt], [first.messageId, 2]);
    const [third] = await receive(consumer, 1);
    assert.deepStrictEqual([third.messageId, third.deliveryAttempt], [first.messageId, 3]);
    await consumer.ack(third);
  }),

  delay: topic => clients(topic, async (producer, consumer) => {
    const due = Date.now() + 4_000;
    await producer.send(made(topic, 'later', { deliveryTimestamp: new Date(due) }));
    const [found] = await receive(consumer, 1);
    assert(Date.now() >= due - 100);
    await consumer.ack(found);
  }),

  transaction: topic => clients(topic, async (producer, consumer) => {
    const kept = producer.beginTransaction();
    await producer.send(made(topic, 'kept'), kept);
    const dropped = producer.beginTransaction();
    await producer.send(made(topic, 'dropped'), dropped);
    await dropped.rollback();
    await kept.commit();
    const [found] = await receive(consumer, 1);
    assert.strictEqual(found.body.toString(), 'kept');
    await consumer.ack(found);
    await nothingComes(consumer);
  }, { check: async () => ROLLBACK }),

  // The broker asks the proxy, and the proxy the producer, what became of a transaction.
  forgotten: topic => {
    const asked = new Set();
    const check = async message => {
      asked.add(message.body.toString());
      return message.body.toString() === 'good' ? COMMIT : ROLLBACK;
    };
    return clients(topic, async (producer, consumer) => {
      for (const body of ['bad', 'good']) {
        await producer.send(made(topic, body), producer.beginTransaction());
      }
      const [found] = await receive(consumer, 1);
      assert.strictEqual(found.body.toString(), 'good');
      await consumer.ack(found);
      for (const end = Date.now() + SOON_MS; asked.size < 2;) {
        assert(Date.now() < end, `asked only ${[...asked]}`);
        await sleep(100);
      }
      await nothingComes(consumer);
    }, { check });
  },
};

async function run(topic) {
  try {
    await CHECKS[topic.slice(topic.indexOf('-') + 1)](topic);
    console.log(`passed ${topic}`);
  } catch (error) {
    console.error(error);
    console.log(`failed ${topic}`);
  }
}

Promise.all(process.argv.slice(3).map(run)).then(() => process.exit(0));
