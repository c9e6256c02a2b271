/* Offsets in light queues (LMQ), which append fills in: a producer leaves LIGHT_DIGITS digits for
 * each in INNER_MULTI_QUEUE_OFFSET. RocketMQ's append makes that property itself (`LmqDispatch`).
 */
#ifndef SILO_APPEND_LIGHT_H
#define SILO_APPEND_LIGHT_H

#include "store/record/properties.h"
#include "store/record/record.h"
#include "store/topics/table.h"

/* The undo mark of a queue whose next offset is `next`, for a batch that begins at `wrote`. */
static inline void silo_mark_next(uint8_t *q, uint64_t next, uint64_t wrote) {
    if (silo_load(q + QUEUE_MARK) == wrote) return;
    silo_store(q + QUEUE_PREVIOUS, next);
    silo_store(q + QUEUE_MARK, wrote);
}

static inline uint32_t silo_lights_of(const silo_record *m, silo_lights *lists) {
    silo_properties found;
    const uint8_t *p = m->bytes + m->properties_at;
    silo_find_properties(p, m->properties_length, &found);
    return silo_first_light(p, m->properties_length, found.light_offsets, lists);
}

/* Whether append may take the record: its offsets in light queues can be filled in, and the session
 * may write to each of these queues. `main` is the record's own queue. Without `enabled` no record
 * may have such offsets. One without them is all right: dispatch puts it into no light queue. */
static inline int silo_lights_are_good(const silo_table *t, uint32_t session,
                                       const silo_record *m, const uint8_t *main, int enabled) {
    const uint8_t *queues[LIGHT_MOST + 1] = {main};
    silo_properties found;
    silo_lights lists;
    silo_text name;
    uint64_t said;
    silo_find_properties(m->bytes + m->properties_at, m->properties_length, &found);
    if (found.light_offsets.length == 0) return 1;
    uint32_t count = silo_lights_of(m, &lists);
    if (!enabled || count == 0 || count > LIGHT_MOST || !silo_is_queued(m)) return 0;
    if (!silo_may_be_light(m->bytes + m->topic_at, m->topic_length)) return 0;
    for (uint32_t i = 1; i <= count; i++) {
        if (!silo_next_light(&lists, &name, &said) || !silo_is_light(name)) return 0;
        if (lists.digits.length != LIGHT_DIGITS) return 0;
        int64_t slot = silo_find_queue(t, name.at, name.length, 0);
        if (slot < 0) return 0;
        queues[i] = silo_queue(t, (uint32_t)slot);
        if (!silo_granted(t, session, queues[i])) return 0;
        for (uint32_t k = 0; k < i; k++)
            if (queues[k] == queues[i]) return 0; /* the same queue twice */
    }
    return 1;
}

/* Fills in the record's offsets in light queues, and moves these queues' next offsets. */
static inline void silo_number_lights(const silo_table *t, const silo_record *m, uint64_t wrote) {
    silo_lights lists;
    silo_text name;
    uint64_t said;
    uint32_t count = silo_lights_of(m, &lists);
    for (uint32_t i = 0; i < count; i++) {
        silo_next_light(&lists, &name, &said);
        uint8_t *q = silo_queue(t, (uint32_t)silo_find_queue(t, name.at, name.length, 0));
        uint64_t next = silo_load(q + QUEUE_NEXT);
        silo_mark_next(q, next, wrote);
        silo_put_light_offset(lists.digits, next);
        silo_store(q + QUEUE_NEXT, next + 1);
        SILO_FAULT("append:light");
    }
}

#endif
