/* The results that append writes into the frames of a ring. */
#ifndef SILO_ANSWERS_H
#define SILO_ANSWERS_H

#include <stdint.h>
#include <string.h>

#include "shm/layout.h"
#include "shm/metrics.h"
#include "shm/words.h"
#include "store/commitlog/turns.h"

/* Step 3: the first record of the frame was appended at `physical`, as number `queue_offset` of its
 * queue. */
static inline void silo_accept(uint8_t *frame, uint64_t physical, uint64_t queue_offset,
                               int64_t time_ms) {
    silo_result result = {0}; /* PUT_OK */
    result.physical_offset = (int64_t)physical;
    result.queue_offset = (int64_t)queue_offset;
    result.store_timestamp = time_ms;
    silo_order();
    memcpy(frame + FRAME_RESULT, &result, sizeof result);
}

/* Step 3 for a frame that is refused. */
static inline void silo_refuse(silo_ring *ring, uint8_t *frame, int status, uint8_t *control,
                               uint8_t *metrics) {
    silo_result result = {status, -1, -1, -1};
    memcpy(frame + FRAME_RESULT, &result, sizeof result);
    silo_store(ring->base + RING_REJECTED, ++ring->rejected);
    silo_store(control + CONTROL_REJECTED, silo_load(control + CONTROL_REJECTED) + 1);
    silo_count_refused(metrics, status);
}

#endif
