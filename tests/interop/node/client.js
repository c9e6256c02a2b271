// The Node client of RocketMQ, driven by the tests: one request as JSON in the first argument,
// one JSON object a line as the answer. See clients.py for the members of both.
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

function say(kind, members) {
  process.stdout.write(JSON.stringify({ kind, at: Date.now(), ...members }) + '\n');
}

function options(wanted) {
  return {
    nameSrv: [wanted.names],
    // The client asks for these, even where nothing is signed and no address is looked up.
    httpclient: {},
    accessKeyId: 'none',
    accessKeySecret: 'none',
    logger: { info() {}, debug() {}, warn: console.error, error: console.error },
    // Its defaults are 30 and 10 s: the tests would wait that long for a new topic or member.
    pollNameServerInteval: 1000,
    rebalanceInterval: 1000,
  };
}

function made(topic, one) {
  const result = new Message(topic, one.tags || '', one.body);
  if (!one.tags) {
    delete result.properties.TAGS; // it would be the text "null"
  }
  if (one.keys) {
    result.keys = one.keys;
  }
  if (one.delay) {
    result.delayTimeLevel = one.delay;
  }
  if (one.shard !== undefined) {
    result.shardingKey = String(one.shard);
  }
  Object.assign(result.properties, one.properties);
  return result;
}

async function send(wanted) {
  const sender = new Producer({ ...options(wanted), producerGroup: wanted.group });
  sender.on('error', (error) => console.error(error));
  await sender.ready();
  const answers = [];
  for (const one of wanted.messages) {
    const answer = sender.send(made(wanted.topics[0], one)).then((result) => {
      say('sent', {
        body: one.body, status: result.sendStatus === 'SEND_OK' ? 0 : 1, id: result.msgId,
        queue: Number(result.messageQueue.queueId), offset: result.queueOffset,
      });
    });
    if (one.how === 'async') {
      answers.push(answer);
    } else {
      await answer;
    }
  }
  await Promise.all(answers);
}

function sayReceived(wanted, one) {
  const properties = {};
  for (const name of wanted.properties || []) {
    if (one.properties[name]) {
      properties[name] = one.properties[name];
    }
  }
  say('received', {
    topic: one.topic, body: one.body ? one.body.toString() : '', tags: one.tags || '',
    keys: one.keys || '', properties, queue: one.queueId, offset: one.queueOffset,
    times: one.reconsumeTimes,
  });
}

async function consume(wanted) {
  const member = new Consumer({
    ...options(wanted), consumerGroup: wanted.group, isBroadcast: Boolean(wanted.broadcast),
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', maxReconsumeTimes: wanted.most,
  });
  member.on('error', (error) => console.error(error));
  for (const topic of wanted.topics) {
    member.subscribe(topic, wanted.filter, async (one) => {
      sayReceived(wanted, one);
      if (one.reconsumeTimes < wanted.refuse) {
        // The result Consumer.ACTION_RETRY would be lost where the message came again before.
        throw new Error('refused');
      }
    });
  }
  await member.ready();
  say('ready');
  process.stdin.resume();
  await new Promise((resolve) => process.stdin.once('end', resolve));
  await member.close();
}

async function main() {
  const wanted = JSON.parse(process.argv[2]);
  await { send, consume }[wanted.do](wanted);
  say('done');
}

main().then(
  () => process.exit(0), // timers of the client live on
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
