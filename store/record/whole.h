/* Whether a record's bytes are whole, as store/record/format.py decodes it with all checks. */
#ifndef SILO_WHOLE_H
#define SILO_WHOLE_H

#include "shm/words.h"
#include "shm/checksum.h"
#include "store/record/properties.h"
#include "store/record/record.h"

/* The checksum in the pair `__CRC32#` at the end of the properties: ten digits, the least
 * significant first. -1 if there is no such pair. */
static inline int64_t silo_record_crc(const silo_record *m) {
    const uint8_t *p = m->bytes + m->total - CRC_PROPERTY_SIZE;
    uint64_t crc = 0, power = 1;
    if (m->properties_length < CRC_PROPERTY_SIZE) return -1;
    if (memcmp(p, "__CRC32#\x01", 9) != 0 || p[CRC_PROPERTY_SIZE - 1] != 2) return -1;
    for (int i = 0; i < 10; i++, power *= 10) {
        if (p[9 + i] < '0' || p[9 + i] > '9') return -1;
        crc += power * (uint64_t)(p[9 + i] - '0');
    }
    return crc <= 0x7FFFFFFF ? (int64_t)crc : -1;
}

/* The ports, topic and properties of a parsed record can be read. */
static inline int silo_is_readable(const silo_record *m) {
    const uint8_t *r = m->bytes;
    const uint8_t *store_port =
        r + m->body_at - RECORD_BODY + RECORD_RECONSUME_TIMES - HOST_PORT_SIZE;
    return m->topic_length > 0 && silo_born_port(m) <= 65535 && silo_be32(store_port) <= 65535 &&
           silo_is_utf8(r + m->topic_at, m->topic_length) &&
           silo_is_utf8(r + m->properties_at, m->properties_length);
}

/* A parsed record can be read, names its own log address `offset`, and its checksums hold. */
static inline int silo_is_whole(const silo_record *m, uint64_t offset) {
    const uint8_t *r = m->bytes;
    if (silo_be64(r + RECORD_PHYSICAL_OFFSET) != offset || !silo_is_readable(m)) return 0;
    if (silo_be32(r + RECORD_BODY_CRC) !=
        (silo_crc32(0, r + m->body_at, m->body_length) & 0x7FFFFFFF))
        return 0;
    int64_t crc = silo_record_crc(m);
    return crc < 0 || crc == (silo_crc32(0, r, m->total - CRC_PROPERTY_SIZE) & 0x7FFFFFFF);
}

#endif
