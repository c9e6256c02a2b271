/* Writes the header of a frame whose records are written; shm/ring.py owns its layout. */
#ifndef SILO_SEAL_H
#define SILO_SEAL_H

#include <stdint.h>

#include "shm/layout.h"
#include "shm/checksum.h"
#include "store/record/record.h"

/* `sent_us` is the low half of the time (epoch us) at which the records were made, for append's
 * histogram of puts. The CRC-32C of a frame omits the bodies of its records, which have a CRC of
 * their own. */
static inline void silo_seal(uint8_t *frame, uint64_t length, uint32_t record_bytes,
                             uint32_t count, uint32_t slot, int wait, uint32_t sent_us) {
    silo_frame *f = (silo_frame *)frame;
    const uint8_t *r = frame + FRAME_HEADER;
    uint32_t crc, body_end, i, left = record_bytes;
    silo_record m;
    f->length = (uint32_t)length;
    f->kind = KIND_RECORDS;
    f->record_bytes = record_bytes;
    f->count = count;
    f->queue_slot = slot;
    f->flags = (uint32_t)wait;
    f->sent_us = sent_us;
    crc = silo_crc32c(0, frame + FRAME_CHECKED, FRAME_RESULT - FRAME_CHECKED);
    for (i = 0; i < count; i++) {
        silo_parse_record(r, left, &m);
        body_end = m.body_at + m.body_length;
        crc = silo_crc32c(crc, r, m.body_at);
        crc = silo_crc32c(crc, r + body_end, m.total - body_end);
        r += m.total;
        left -= m.total;
    }
    f->crc = crc;
}

#endif
