/* Takes the records of a read out of one commit-log file, as queue entries lead to them: first
 * their number and bytes are found, then they are copied to where the answer is built. */
#ifndef SILO_RECORDS_H
#define SILO_RECORDS_H

#include <stdint.h>
#include <string.h>

#include "shm/words.h"
#include "store/consumequeue/entries.h"
#include "store/record/record.h"

/* Walks over the entries as long as each leads to a record in `log`, the file that begins at log
 * offset `w->base`. Afterwards `w` says how many records are taken, their bytes, and how many
 * entries were passed. 0 if the first record to take is elsewhere, or is none: only the general way
 * can say what that means. */
static inline int silo_measure(silo_walk *w, const uint8_t *log) {
    int found;
    while ((found = silo_next_entry(w)) == ENTRY_FOUND) {
        const uint8_t *record = log + (w->at - w->base);
        if (w->size < RECORD_FIXED || silo_be32(record + RECORD_TOTAL_SIZE) != (uint32_t)w->size ||
            (silo_be32(record + RECORD_MAGIC) != RECORD_MAGIC_V1 &&
             silo_be32(record + RECORD_MAGIC) != RECORD_MAGIC_V2)) {
            w->taken--;
            w->bytes -= w->size;
            w->next--;
            break;
        }
    }
    return w->taken || found == ENTRY_ALL || found == ENTRY_FULL;
}

/* Copies `taken` records to `out`. `w` is the walk as it was before it was measured. */
static inline void silo_copy(silo_walk *w, const uint8_t *log, int64_t taken, uint8_t *out) {
    w->limit = taken;
    while (w->taken < taken && silo_next_entry(w) == ENTRY_FOUND) {
        memcpy(out, log + (w->at - w->base), (size_t)w->size);
        out += w->size;
    }
}

#endif
