/* The entries of a record in the light queues (LMQ) that it names, and the dispatch kernel's
 * windows. The package's docstring says where they lie, and why a kill doubles none. */
#ifndef SILO_LIGHT_H
#define SILO_LIGHT_H

#include "store/consumequeue/entries.h"
#include "store/record/properties.h"
#include "store/record/record.h"
#include "store/topics/table.h"

/* Mapped entries [first, end) of one consume queue. As a light queue it was last given the record
 * at log offset `light - 1`, and entry `settled` is known to come next. */
typedef struct {
    uint8_t *base;
    uint64_t first, end;
    uint64_t light, settled;
} silo_window;

/* A walk over the light queues of one record, from number `done` on. `counted` is how many of those
 * before have an entry. `slot` and `need` are the queue and the entry for which a window is
 * missing; `name` and `queue_id` are the queue. */
typedef struct {
    uint32_t done, counted;
    uint32_t slot, queue_id;
    uint64_t need;
    silo_text name;
} silo_light_walk;

enum { LIGHT_DONE = 0, LIGHT_ENTRY = 1, LIGHT_NEED_WINDOW = 2, LIGHT_UNKNOWN = 3 };

static inline uint8_t *silo_window_entry(const silo_window *window, uint64_t number) {
    if (number < window->first || number >= window->end) return NULL;
    return window->base + ENTRY_SIZE * (number - window->first);
}

/* Gives the record at log offset `offset` its entry in the queue of the walk, by RocketMQ's rules
 * (`ConsumeQueue.putMessagePositionInfo`): at the queue's end, or in an empty queue at the offset
 * `said` in the record. A record that says an earlier place gets none. LIGHT_ENTRY: `max_offset`
 * has moved, and readers must be told. */
static inline int silo_put_light(const silo_table *t, silo_window *window, silo_light_walk *walk,
                                 uint64_t offset, uint32_t size, uint64_t code, uint64_t said) {
    uint8_t *q = silo_queue(t, walk->slot), *entry;
    uint64_t end = silo_load(q + QUEUE_MAX_OFFSET), at = end ? end : said;
    if (window->light == offset + 1) return LIGHT_DONE;                   /* named twice */
    if (offset < silo_load(q + QUEUE_SINCE)) return LIGHT_DONE;           /* deleted since */
    /* The entry before tells whether a killed reput was here already. `max_offset` cannot: the
     * record may say another offset than the one at which it lies. */
    if (end && window->settled != end) {
        walk->need = end - 1;
        if (!(entry = silo_window_entry(window, end - 1))) return LIGHT_NEED_WINDOW;
        if (silo_be64(entry + ENTRY_AT_OFFSET) >= offset) {
            window->light = offset + 1;
            walk->counted++;
            return LIGHT_DONE;
        }
        window->settled = end;
    }
    if (said && said < end) return LIGHT_DONE;
    walk->need = at;
    if (!(entry = silo_window_entry(window, at))) return LIGHT_NEED_WINDOW;
    silo_put_entry(entry, offset, size, code);
    SILO_FAULT("reput:light");
    silo_store(q + QUEUE_MAX_OFFSET, at + 1); /* SYNC: queue-max publish */
    SILO_FAULT("reput:lightmax");
    window->light = offset + 1;
    window->settled = at + 1;
    walk->counted++;
    return LIGHT_ENTRY;
}

/* Goes on with the walk over the record `r` at log offset `offset`, whose own queue is `own`: up to
 * the next entry (LIGHT_ENTRY; to be called again), to the last one (LIGHT_DONE), or to what the
 * caller must do first. */
static inline int silo_next_light_entry(const silo_table *t, silo_window *windows,
                                        silo_light_walk *walk, const uint8_t *r, uint64_t offset,
                                        uint32_t size, int64_t own, uint64_t code) {
    silo_record m;
    silo_properties found;
    silo_lights lists;
    uint64_t said;
    uint32_t count = 0;
    silo_parse_record(r, size, &m);
    const uint8_t *p = r + m.properties_at;
    silo_find_properties(p, m.properties_length, &found);
    if (silo_may_be_light(r + m.topic_at, m.topic_length))
        count = silo_first_light(p, m.properties_length, found.light_offsets, &lists);
    for (uint32_t i = 0; i < count; i++) {
        if (!silo_next_light(&lists, &walk->name, &said) || i < walk->done) continue;
        walk->done = i;
        walk->queue_id = silo_light_id(walk->name, silo_be32(r + RECORD_QUEUE_ID));
        int64_t slot =
            silo_find_queue(t, walk->name.at, walk->name.length, walk->queue_id);
        if (slot < 0) return LIGHT_UNKNOWN;
        walk->slot = (uint32_t)slot;
        if (slot != own) {
            int found_why = silo_put_light(t, &windows[slot], walk, offset, size, code, said);
            if (found_why == LIGHT_NEED_WINDOW) return found_why;
            walk->done = i + 1;
            if (found_why == LIGHT_ENTRY) return found_why;
        }
    }
    walk->done = count;
    return LIGHT_DONE;
}

#endif
