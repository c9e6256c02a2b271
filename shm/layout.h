/* Positions of words and fields for the compiled modules. shm/control.py, shm/ring.py and
 * shm/bell.py own these layouts and name the writer of each word. A test compares these numbers
 * with theirs. */
#ifndef SILO_LAYOUT_H
#define SILO_LAYOUT_H

#include <stdint.h>
#include <string.h>

enum {
    CONTROL_APPEND_MAIL = 152,
    CONTROL_FAILED = 184,
    CONTROL_WROTE = 256,
    CONTROL_STORE_TIME_MS = 264,
    CONTROL_RECORDS = 272,
    CONTROL_REJECTED = 280,
    CONTROL_APPEND_ASLEEP = 384,
    CONTROL_CROWDED = 392,
    CONTROL_FLUSHED = 768,
    CONTROL_FLUSH_ERROR = 784,
    CONTROL_FLUSH_ASLEEP = 896,
    CONTROL_DISPATCHED = 1024,
    CONTROL_DISPATCH_COUNT = 1032,
    CONTROL_REPUT_ASLEEP = 1152,
    CONTROL_DISK_FLAGS = 1416,
    CONTROL_WATCHED = 1664,
    CONTROL_PROGRESS_GENERATION = 4096,
    CONTROL_PROGRESS_0 = 4224,
    CONTROL_PROGRESS_1 = 4352,
    CONTROL_ARRIVAL = 8192,
    ARRIVAL_WORDS = 1024,

    RING_HEAD = 128,
    RING_PRODUCER_ASLEEP = 256,
    RING_TAIL = 384,
    RING_CLOSED = 512,
    RING_REJECTED = 520,
    RING_DATA = 4096,

    BELL_ASLEEP = 0,
    BELL_WATCHED = 64,
    BELL_ANSWERS = 1, /* the reasons of a sleep, the low byte of `asleep` */
    BELL_ARRIVALS = 2,
    BELL_FLUSHED = 4,

    FRAME_HEADER = 64,
    FRAME_RESULT = 32,
    FRAME_CHECKED = 12, /* the CRC-32C covers the header from here to the result */
    KIND_RECORDS = 1,
    KIND_PAD = 2,
};

typedef struct {
    uint32_t length, kind, crc, record_bytes, count, queue_slot, flags, sent_us;
} silo_frame;

typedef struct {
    int64_t status, physical_offset, queue_offset, store_timestamp;
} silo_result;

/* Copies the header of the frame at `place` of a ring, once, because a client may change it at any
 * time. Returns whether the frame lies within the ring and the `left` published bytes. */
static inline int silo_read_frame(const uint8_t *ring, uint64_t capacity, uint64_t place,
                                  uint64_t left, silo_frame *out) {
    if (left > capacity || left < FRAME_HEADER || place % 64 || capacity - place < FRAME_HEADER)
        return 0;
    memcpy(out, ring + RING_DATA + place, FRAME_RESULT);
    return out->length >= FRAME_HEADER && out->length % 64 == 0 && out->length <= left &&
           out->length <= capacity - place;
}

/* Reput's progress, the layout `progress` of shm/control.py. */
typedef struct {
    uint64_t dispatched, dispatch_count, index_name, index_count, index_slots;
    uint64_t begin_time, end_time, begin_offset, end_offset;
} silo_progress;

#endif
