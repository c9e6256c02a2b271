/* Adds keys to an index file (store/index/file.py owns the layout). The current values of the
 * header are in reput's progress, from which silo_index_header copies them to the file. */
#ifndef SILO_INDEX_H
#define SILO_INDEX_H

#include "shm/layout.h"
#include "shm/words.h"

enum {
    INDEX_HEADER = 40,
    INDEX_SLOT = 4,
    INDEX_ENTRY = 20,

    INDEX_BEGIN_TIMESTAMP = 0,
    INDEX_END_TIMESTAMP = 8,
    INDEX_BEGIN_PHY_OFFSET = 16,
    INDEX_END_PHY_OFFSET = 24,
    INDEX_HASH_SLOT_COUNT = 32,
    INDEX_INDEX_COUNT = 36,

    INDEX_KEY_HASH = 0,
    INDEX_PHY_OFFSET = 4,
    INDEX_TIME_DIFF = 12,
    INDEX_PREV_INDEX = 16,
};

static inline uint8_t *silo_index_slot(uint8_t *index, uint64_t slots, uint32_t key_hash) {
    return index + INDEX_HEADER + INDEX_SLOT * (key_hash % slots);
}
static inline uint8_t *silo_index_entry(uint8_t *index, uint64_t slots, uint64_t number) {
    return index + INDEX_HEADER + INDEX_SLOT * slots + INDEX_ENTRY * number;
}

static inline void silo_index_header(uint8_t *index, const silo_progress *s) {
    silo_put64(index + INDEX_BEGIN_TIMESTAMP, s->begin_time);
    silo_put64(index + INDEX_END_TIMESTAMP, s->end_time);
    silo_put64(index + INDEX_BEGIN_PHY_OFFSET, s->begin_offset);
    silo_put64(index + INDEX_END_PHY_OFFSET, s->end_offset);
    silo_put32(index + INDEX_HASH_SLOT_COUNT, (uint32_t)s->index_slots);
    silo_put32(index + INDEX_INDEX_COUNT, (uint32_t)s->index_count);
}

/* Undoes the entries from number `count` on, which the published progress does not count, and
 * returns how many there were. An entry is written before its slot. So from a slot at or above the
 * count, the chain leads back to the value that the slot had before. */
static inline uint64_t silo_index_undo(uint8_t *index, uint64_t slots, uint64_t entries,
                                       uint64_t count) {
    static const uint8_t zero[INDEX_ENTRY];
    uint64_t n = count;
    for (; n < entries; n++) {
        uint8_t *entry = silo_index_entry(index, slots, n);
        if (memcmp(entry, zero, INDEX_ENTRY) == 0) break;
        uint8_t *at = silo_index_slot(index, slots, silo_be32(entry + INDEX_KEY_HASH));
        uint64_t slot = silo_be32(at);
        while (slot >= count && slot < entries) {
            uint64_t previous =
                silo_be32(silo_index_entry(index, slots, slot) + INDEX_PREV_INDEX);
            slot = previous < slot ? previous : 0;
        }
        silo_put32(at, (uint32_t)slot);
    }
    memset(silo_index_entry(index, slots, count), 0, INDEX_ENTRY * (n - count));
    return n - count;
}

/* Computes all slots anew from the entries below number `count`. After a power cut a slot may be on
 * the disk without its entry, or an entry without its slot. `heads` is zeroed memory for `slots`
 * numbers. Returns how many slots were wrong. */
static inline uint64_t silo_index_relink(uint8_t *index, uint64_t slots, uint64_t count,
                                         uint32_t *heads) {
    uint64_t changed = 0;
    for (uint64_t n = 1; n < count; n++)
        heads[silo_be32(silo_index_entry(index, slots, n) + INDEX_KEY_HASH) % slots] = (uint32_t)n;
    for (uint64_t i = 0; i < slots; i++) {
        uint8_t *slot = index + INDEX_HEADER + INDEX_SLOT * i;
        if (silo_be32(slot) == heads[i]) continue;
        silo_put32(slot, heads[i]);
        changed++;
    }
    return changed;
}

/* Adds a key as IndexFile.putKey: first the entry, then the slot, then the counts in `s`. The file
 * must have room for it. */
static inline void silo_index_put(uint8_t *index, uint64_t slots, silo_progress *s,
                                  uint32_t key_hash, uint64_t offset, uint64_t store_time) {
    uint8_t *slot = silo_index_slot(index, slots, key_hash);
    uint8_t *entry = silo_index_entry(index, slots, s->index_count);
    int64_t previous = (int32_t)silo_be32(slot), seconds = 0;
    if (previous < 0 || previous > (int64_t)s->index_count) previous = 0;
    if ((int64_t)s->begin_time > 0) {
        seconds = ((int64_t)store_time - (int64_t)s->begin_time) / 1000;
        seconds = seconds < 0 ? 0 : seconds > INT32_MAX ? INT32_MAX : seconds;
    }
    silo_put32(entry + INDEX_KEY_HASH, key_hash);
    silo_put64(entry + INDEX_PHY_OFFSET, offset);
    silo_put32(entry + INDEX_TIME_DIFF, (uint32_t)seconds);
    silo_put32(entry + INDEX_PREV_INDEX, (uint32_t)previous);
    silo_order();
    SILO_FAULT("reput:entry");
    silo_put32(slot, (uint32_t)s->index_count);
    SILO_FAULT("reput:slot");
    if (s->index_count <= 1) {
        s->begin_offset = offset;
        s->begin_time = store_time;
    }
    if (previous == 0) s->index_slots++;
    s->index_count++;
    s->end_offset = offset;
    s->end_time = store_time;
}

#endif
