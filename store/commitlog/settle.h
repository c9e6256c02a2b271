/* What a new append does with the frames that a dead append had taken from a ring. */
#ifndef SILO_SETTLE_H
#define SILO_SETTLE_H

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "shm/bells.h"
#include "shm/layout.h"
#include "shm/words.h"
#include "store/commitlog/turns.h"
#include "store/topics/table.h"

#define SILO_NO_MARK 0xFFFFFFFFFFFFFFFFu

/* The next frame of a ring at `p`, which lies at `at`. */
typedef struct {
    uint64_t p, at, head;
    silo_frame frame;
} silo_frames;

static inline int silo_next_frame(const silo_ring *ring, silo_frames *walk) {
    return walk->p < walk->head && silo_read_frame(ring->base, ring->capacity, walk->at,
                                                   walk->head - walk->p, &walk->frame);
}

static inline void silo_pass_frame(const silo_ring *ring, silo_frames *walk) {
    walk->p += walk->frame.length;
    walk->at = (walk->at + walk->frame.length) % ring->capacity;
}

/* Acknowledges the frames that were answered, and erases the results of the rest. Frames are
 * answered in order: all up to the last one whose result lies below `wrote` were. Returns the
 * acknowledged bytes. */
static inline uint64_t silo_settle(silo_ring *ring, uint64_t wrote) {
    silo_frames walk = {ring->tail, ring->at, silo_load(ring->base + RING_HEAD), {0}};
    silo_result result;
    uint64_t settled = ring->tail, acknowledged;
    for (; silo_next_frame(ring, &walk); silo_pass_frame(ring, &walk)) {
        if (walk.frame.kind != KIND_RECORDS)
            continue;
        memcpy(&result, ring->base + RING_DATA + walk.at + FRAME_RESULT, sizeof result);
        if (result.physical_offset >= 0 && result.physical_offset < (int64_t)wrote)
            settled = walk.p + walk.frame.length;
    }
    acknowledged = settled - ring->tail;
    walk.p = settled;
    walk.at = settled % ring->capacity;
    result.status = result.physical_offset = result.queue_offset = result.store_timestamp = -1;
    for (; silo_next_frame(ring, &walk); silo_pass_frame(ring, &walk))
        if (walk.frame.kind == KIND_RECORDS)
            memcpy(ring->base + RING_DATA + walk.at + FRAME_RESULT, &result, sizeof result);
    ring->tail = ring->published = settled;
    ring->at = settled % ring->capacity;
    silo_store(ring->base + RING_TAIL, settled);
    silo_futex_wake(ring->base + RING_TAIL, INT_MAX);
    if (ring->bell.page)
        silo_ring_now(&ring->bell);
    return acknowledged;
}

/* Rolls back the queue offsets that an unpublished batch behind `wrote` has moved. Returns the
 * number of queues. */
static inline uint64_t silo_roll_back(const silo_table *t, uint64_t wrote) {
    uint64_t slot, touched = 0;
    for (slot = 0; slot < silo_queue_count(t); slot++) {
        uint8_t *q = silo_queue(t, slot);
        if (silo_load(q + QUEUE_MARK) != wrote)
            continue;
        silo_store(q + QUEUE_NEXT, silo_load(q + QUEUE_PREVIOUS));
        silo_store(q + QUEUE_MARK, SILO_NO_MARK);
        touched++;
    }
    return touched;
}

#endif
