/* Staging: under SYNC_FLUSH append makes a batch in memory of its own, and writes it to the file
 * with one call.
 *
 * A sync makes every page that it writes read-only in all mappings. Then each store to the mapped
 * file faults again after each sync, and each page of a sync interrupts the other cores to tell
 * them. With 64 messages of 1 KiB under way that took a third of flush's time, and a quarter of
 * append's. Pages that nobody maps for writing cost neither.
 */
#ifndef SILO_STAGING_H
#define SILO_STAGING_H

#include <stdint.h>
#include <string.h>

#include "store/disk/writing.h"

/* Positions are those in the file. The bytes [from, end of the batch so far) are staged. With no
 * `room` nothing is: then all is stored in the mapped file. */
typedef struct {
    uint8_t *bytes;
    uint64_t room, from;
    int fd;
    int mapped; /* what lies behind `from` was stored in the mapped file */
    int error;  /* errno of the last write that failed, 0 without one */
} silo_staging;

/* The batch has come to position `to`: writes what is staged. The space of the file is taken and
 * its pages are in memory, so the kernel takes all bytes. What it does not take is stored in the
 * mapped file, and `error` says why. */
static inline void silo_write_staged(silo_staging *s, uint8_t *file, uint64_t to) {
    if (!s->room) return;
    if (!s->mapped && to > s->from) {
        uint64_t size = to - s->from;
        uint64_t done = silo_write_at(s->fd, s->bytes, size, s->from, &s->error);
        memcpy(file + s->from + done, s->bytes + done, size - done);
    }
    s->from = to;
    s->mapped = 0;
}

/* Where to make the next `length` bytes, which follow the batch so far and go to position `at`. */
static inline uint8_t *silo_stage(silo_staging *s, uint8_t *file, uint64_t at, uint64_t length) {
    if (!s->room) return file + at;
    if (s->mapped || at + length - s->from > s->room) silo_write_staged(s, file, at);
    if (length <= s->room) return s->bytes + (at - s->from);
    s->mapped = 1;
    return file + at;
}

#endif
