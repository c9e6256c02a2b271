/* Queue entries (store/consumequeue/queue.py owns the layout): writing one, and a walk over the
 * entries of a queue that finds the records a reader takes and says why it ends. */
#ifndef SILO_ENTRIES_H
#define SILO_ENTRIES_H

#include "shm/words.h"

enum { ENTRY_SIZE = 20, ENTRY_AT_OFFSET = 0, ENTRY_AT_SIZE = 8, ENTRY_AT_TAGS_CODE = 12 };

static inline uint32_t silo_entry_size(const uint8_t *entry) {
    return silo_be32(entry + ENTRY_AT_SIZE);
}

static inline void silo_put_entry(uint8_t *entry, uint64_t offset, uint32_t size, uint64_t code) {
    silo_put64(entry + ENTRY_AT_OFFSET, offset);
    silo_put32(entry + ENTRY_AT_SIZE, size);
    silo_put64(entry + ENTRY_AT_TAGS_CODE, code);
}

/* The results of silo_next_entry. FOUND: a record. ALL: no entry is left. FULL: the limit of
 * records or bytes is reached. ELSEWHERE: the entry's record is outside the readable bytes of the
 * log. BAD: no record can lie where the entry says. */
enum { ENTRY_FOUND = -1, ENTRY_ALL = 0, ENTRY_FULL = 1, ENTRY_ELSEWHERE = 2, ENTRY_BAD = 3 };

typedef struct {
    const uint8_t *entries;
    int64_t number, next;          /* the number of entries, the index of the next one */
    const int32_t *codes;          /* tags codes to take, ascending; NULL: any */
    int64_t code_count;
    int64_t base, end;             /* log offsets: the readable bytes; equal: none */
    int64_t limit, max_bytes;      /* most records, most bytes; a first record is always taken */
    int64_t taken, bytes;
    int64_t at, size;              /* the record that was found */
} silo_walk;

/* Whether a record may have a wanted tag, by the third field of its entry. An address in a
 * consumequeue_ext file, below all hashes, says nothing: readers compare the tags then. */
static inline int silo_has_code(const silo_walk *w, int64_t field) {
    int64_t low = 0, high = w->code_count;
    int32_t code = (int32_t)field;
    if (field < INT32_MIN) return 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (w->codes[middle] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->code_count && w->codes[low] == code;
}

/* Finds the next record to take. Then `next` is behind its entry; if the walk ends, `next` is at
 * the entry that ended it. */
static inline int silo_next_entry(silo_walk *w) {
    if (w->taken >= w->limit) return ENTRY_FULL;
    for (; w->next < w->number; w->next++) {
        const uint8_t *entry = w->entries + w->next * ENTRY_SIZE;
        int64_t field = (int64_t)silo_be64(entry + ENTRY_AT_TAGS_CODE);
        if (w->codes && !silo_has_code(w, field)) continue;
        int64_t at = (int64_t)silo_be64(entry + ENTRY_AT_OFFSET);
        int64_t size = (int32_t)silo_entry_size(entry);
        if (w->taken && size > w->max_bytes - w->bytes) return ENTRY_FULL;
        if (at < 0) return ENTRY_BAD;
        if (at < w->base || at >= w->end) return ENTRY_ELSEWHERE;
        if (size <= 0 || size > w->end - at) return ENTRY_BAD;
        w->at = at;
        w->size = size;
        w->bytes += size;
        w->taken++;
        w->next++;
        return ENTRY_FOUND;
    }
    return ENTRY_ALL;
}

/* An upper bound of the bytes of records that a walk takes; 0 with tags codes, because these may
 * choose few. */
static inline int64_t silo_walk_bytes(const silo_walk *w) {
    int64_t count = w->limit - w->taken < w->number ? w->limit - w->taken : w->number;
    int64_t most = w->max_bytes - w->bytes < w->end - w->base ? w->max_bytes - w->bytes
                                                              : w->end - w->base;
    int64_t total = 0;
    if (w->codes) return 0;
    for (int64_t i = 0; i < count; i++) total += silo_entry_size(w->entries + i * ENTRY_SIZE);
    return total < most ? total : most;
}

#endif
