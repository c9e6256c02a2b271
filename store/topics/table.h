/* The offsets of the topic table's fields (store/topics/table_layout.py owns the layout), and the
 * look-up of a record's queue. */
#ifndef SILO_TABLE_H
#define SILO_TABLE_H

#include <stddef.h>

#include "shm/layout.h"
#include "shm/words.h"

enum {
    TABLE_BUCKETS = 32,
    TABLE_QUEUE_COUNT = 48,
    TABLE_TOPICS_AT = 56,
    TABLE_QUEUES_AT = 64,
    TABLE_BUCKETS_AT = 72,
    TABLE_GRANTS_AT = 80,
    TABLE_GRANT_STRIDE = 88,

    TOPIC_SIZE = 320,
    TOPIC_NAME = 64,

    QUEUE_SIZE = 256,
    QUEUE_HASH = 0,
    QUEUE_TOPIC = 8,
    QUEUE_ID = 12,
    QUEUE_NAME_LENGTH = 16,
    QUEUE_NAME = 20,
    QUEUE_NAME_SIZE = 44,
    QUEUE_NEXT = 64,
    QUEUE_PREVIOUS = 72,
    QUEUE_MARK = 80,
    QUEUE_MAX_OFFSET = 128,
    QUEUE_SINCE = 136,
};

typedef struct {
    uint8_t *base, *topics, *queues, *grants;
    uint32_t *buckets;
    uint64_t mask, grant_stride;
} silo_table;

static inline void silo_table_open(silo_table *t, uint8_t *base) {
    t->base = base;
    t->topics = base + silo_load(base + TABLE_TOPICS_AT);
    t->queues = base + silo_load(base + TABLE_QUEUES_AT);
    t->buckets = (uint32_t *)(base + silo_load(base + TABLE_BUCKETS_AT));
    t->mask = silo_load(base + TABLE_BUCKETS) - 1;
    t->grants = base + silo_load(base + TABLE_GRANTS_AT);
    t->grant_stride = silo_load(base + TABLE_GRANT_STRIDE);
}

static inline uint64_t silo_queue_count(const silo_table *t) {
    return silo_load(t->base + TABLE_QUEUE_COUNT);
}
static inline uint8_t *silo_queue(const silo_table *t, uint32_t slot) {
    return t->queues + (size_t)QUEUE_SIZE * slot;
}
static inline uint32_t silo_queue_u32(const uint8_t *q, int at) {
    uint32_t v;
    memcpy(&v, q + at, 4);
    return v;
}

/* Whether the queue in `q` belongs to this topic. */
static inline int silo_topic_is(const silo_table *t, const uint8_t *q, const uint8_t *name,
                                uint32_t length) {
    if (silo_queue_u32(q, QUEUE_NAME_LENGTH) != length) return 0;
    if (length <= QUEUE_NAME_SIZE) return memcmp(q + QUEUE_NAME, name, length) == 0;
    const uint8_t *topic = t->topics + (size_t)TOPIC_SIZE * silo_queue_u32(q, QUEUE_TOPIC);
    return memcmp(topic + TOPIC_NAME, name, length) == 0;
}

static inline uint64_t silo_queue_hash(const uint8_t *name, uint32_t length, uint32_t queue_id) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ ((uint64_t)queue_id << 32 | length), w;
    uint32_t n = length;
    for (; n >= 8; n -= 8, name += 8) {
        memcpy(&w, name, 8);
        h = (h ^ w) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, name, n);
    h = (h ^ w) * 0xC4CEB9FE1A85EC53u;
    return h ^ h >> 29;
}

/* The slot of a queue with hash `h`, or -1. The registry writes an entry before its bucket. */
static inline int64_t silo_find_hashed(const silo_table *t, uint64_t h, const uint8_t *name,
                                       uint32_t length, uint32_t queue_id) {
    for (uint64_t i = h & t->mask;; i = (i + 1) & t->mask) {
        /* SYNC: queue-bucket observe */
        uint32_t found = __atomic_load_n(&t->buckets[i], __ATOMIC_ACQUIRE);
        if (found == 0) return -1;
        const uint8_t *q = silo_queue(t, found - 1);
        if (silo_load(q + QUEUE_HASH) == h && silo_queue_u32(q, QUEUE_ID) == queue_id &&
            silo_topic_is(t, q, name, length))
            return found - 1;
    }
}

static inline int64_t silo_find_queue(const silo_table *t, const uint8_t *name, uint32_t length,
                                      uint32_t queue_id) {
    return silo_find_hashed(t, silo_queue_hash(name, length, queue_id), name, length, queue_id);
}

/* To find a queue takes two loads, the second of which depends on the first. Among thousands of
 * queues each is a cache miss. A caller with many records prefetches the first load of each, then
 * the second of each. */
static inline void silo_load_bucket(const silo_table *t, uint64_t h) {
    __builtin_prefetch(&t->buckets[h & t->mask], 0, 3);
}
static inline void silo_load_queue(const silo_table *t, uint64_t h) {
    uint32_t found = __atomic_load_n(&t->buckets[h & t->mask], __ATOMIC_RELAXED);
    const uint8_t *q = silo_queue(t, found ? found - 1 : 0);
    __builtin_prefetch(q, 0, 3);
    __builtin_prefetch(q + QUEUE_MAX_OFFSET, 1, 3);
}

/* For append: prefetches the queue of the frame at `place` of a ring, if there is a frame. The
 * frame is not checked yet, so its slot may be any number. */
static inline void silo_load_next(const silo_table *t, const uint8_t *ring, uint64_t capacity,
                                  uint64_t place) {
    uint32_t slot;
    if (place >= capacity) return;
    memcpy(&slot, ring + RING_DATA + place + offsetof(silo_frame, queue_slot), 4);
    if (slot >= silo_queue_count(t)) return;
    __builtin_prefetch(silo_queue(t, slot), 0, 3);
    __builtin_prefetch(silo_queue(t, slot) + QUEUE_NEXT, 1, 3);
}

/* For the registry: makes look-ups find the entry in `slot`, which must be whole. It takes the
 * bucket of a deleted queue of that name, so that a look-up always finds one of the two. At most
 * half of the buckets are used, so each search ends. */
static inline void silo_insert_bucket(const silo_table *t, uint32_t slot) {
    const uint8_t *q = silo_queue(t, slot);
    const uint8_t *topic = t->topics + (size_t)TOPIC_SIZE * silo_queue_u32(q, QUEUE_TOPIC);
    uint32_t length = silo_queue_u32(q, QUEUE_NAME_LENGTH), id = silo_queue_u32(q, QUEUE_ID), found;
    uint64_t h = silo_load(q + QUEUE_HASH), i = h & t->mask;
    while ((found = __atomic_load_n(&t->buckets[i], __ATOMIC_RELAXED)) != 0) {
        const uint8_t *other = silo_queue(t, found - 1);
        if (silo_load(other + QUEUE_HASH) == h && silo_queue_u32(other, QUEUE_ID) == id &&
            silo_topic_is(t, other, topic + TOPIC_NAME, length))
            break;
        i = (i + 1) & t->mask;
    }
    __atomic_store_n(&t->buckets[i], slot + 1, __ATOMIC_RELEASE); /* SYNC: queue-bucket publish */
}

static inline int silo_granted(const silo_table *t, uint32_t session, const uint8_t *q) {
    uint32_t topic = silo_queue_u32(q, QUEUE_TOPIC);
    return t->grants[session * t->grant_stride + topic / 8] >> (topic % 8) & 1;
}

#endif
