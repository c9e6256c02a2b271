/* The third field of a queue entry, from its record (store/consumequeue/queue.py). */
#ifndef SILO_TAGS_CODE_H
#define SILO_TAGS_CODE_H

#include "store/record/properties.h"
#include "store/record/record.h"

/* The hash of the tags, or for a delay level the due time, epoch ms. `delays` are the delay levels'
 * times in ms, level 1 first. */
static inline int64_t silo_tags_code(const silo_record *m, const silo_properties *found,
                                     const int64_t *delays, int levels) {
    const uint8_t *topic = m->bytes + m->topic_at;
    if (m->topic_length == 19 && memcmp(topic, "SCHEDULE_TOPIC_XXXX", 19) == 0) {
        int level = silo_parse_level(found->delay);
        level = level < levels ? level : levels;
        if (level > 0) return (int64_t)silo_be64(m->bytes + m->time_at) + delays[level - 1];
    }
    if (found->tags.length == 0) return 0;
    return (int32_t)silo_java_hash(0, found->tags.at, found->tags.length);
}

#endif
