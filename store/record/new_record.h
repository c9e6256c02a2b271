/* Writes a new record up to its properties (store/record/format.py owns the layout). What only
 * append can know is left zero: queue offset, log offset and store time. */
#ifndef SILO_NEW_RECORD_H
#define SILO_NEW_RECORD_H

#include <string.h>

#include "shm/words.h"
#include "shm/checksum.h"
#include "store/record/record.h"

enum { NARROW_TOPIC = 127 }; /* a longer topic needs a record of version 2 */

typedef struct {
    const uint8_t *body, *topic, *born_host, *store_host;
    uint32_t total, queue_id, flag, sys_flag;
    uint32_t body_length, topic_length, properties_length, born_host_length, store_host_length;
    int64_t born_ms;
} silo_new_record;

/* Returns where the properties begin. `n->total` is the length of all. */
static inline uint8_t *silo_begin_record(uint8_t *r, const silo_new_record *n) {
    int wide = n->topic_length > NARROW_TOPIC;
    silo_put32(r + RECORD_TOTAL_SIZE, n->total);
    silo_put32(r + RECORD_MAGIC, wide ? RECORD_MAGIC_V2 : RECORD_MAGIC_V1);
    silo_put32(r + RECORD_BODY_CRC, silo_crc32(0, n->body, n->body_length) & 0x7FFFFFFF);
    silo_put32(r + RECORD_QUEUE_ID, n->queue_id);
    silo_put32(r + RECORD_FLAG, n->flag);
    memset(r + RECORD_QUEUE_OFFSET, 0, RECORD_SYS_FLAG - RECORD_QUEUE_OFFSET);
    silo_put32(r + RECORD_SYS_FLAG, n->sys_flag);
    silo_put64(r + RECORD_BORN_TIMESTAMP, (uint64_t)n->born_ms);
    /* From here on the fields' places depend on the sizes of the hosts before them. */
    uint8_t *p = r + RECORD_BORN_HOST;
    memcpy(p, n->born_host, n->born_host_length);
    p += n->born_host_length;
    memset(p, 0, RECORD_STORE_HOST - RECORD_STORE_TIMESTAMP);
    p += RECORD_STORE_HOST - RECORD_STORE_TIMESTAMP;
    memcpy(p, n->store_host, n->store_host_length);
    p += n->store_host_length;
    memset(p, 0, RECORD_BODY_LENGTH - RECORD_RECONSUME_TIMES);
    p += RECORD_BODY_LENGTH - RECORD_RECONSUME_TIMES;
    silo_put32(p, n->body_length);
    p += 4;
    memcpy(p, n->body, n->body_length);
    p += n->body_length;
    if (wide) {
        silo_put16(p, n->topic_length);
        p += 2;
    } else {
        *p++ = (uint8_t)n->topic_length;
    }
    memcpy(p, n->topic, n->topic_length);
    p += n->topic_length;
    silo_put16(p, n->properties_length);
    return p + 2;
}

#endif
