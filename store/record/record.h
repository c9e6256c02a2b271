/* Parses a record's bytes (store/record/format.py owns the layout): finds the record's parts, and
 * checks that their lengths agree. */
#ifndef SILO_RECORD_H
#define SILO_RECORD_H

#include <string.h>

#include "shm/words.h"

/* The offsets of fields in a record with IPv4 hosts. Fields behind a host with an IPv6 address lie
 * 12 bytes further: see silo_parse_record. */
enum {
    RECORD_TOTAL_SIZE = 0,
    RECORD_MAGIC = 4,
    RECORD_BODY_CRC = 8,
    RECORD_QUEUE_ID = 12,
    RECORD_FLAG = 16,
    RECORD_QUEUE_OFFSET = 20,
    RECORD_PHYSICAL_OFFSET = 28,
    RECORD_SYS_FLAG = 36,
    RECORD_BORN_TIMESTAMP = 40,
    RECORD_BORN_HOST = 48,
    RECORD_STORE_TIMESTAMP = 56,
    RECORD_STORE_HOST = 64,
    RECORD_RECONSUME_TIMES = 72,
    RECORD_PREPARED_TRANSACTION_OFFSET = 76,
    RECORD_BODY_LENGTH = 84,
    RECORD_BODY = 88,
    RECORD_FIXED = 91, /* all but body, topic and properties; version 1, IPv4 */
    RECORD_SECTOR = 512, /* the bytes that a disk writes as a whole */
    END_OF_FILE_SIZE = 8,
    HOST_SIZE = 8,          /* address and port */
    HOST_V6_SIZE = 20,
    HOST_PORT_SIZE = 4,
    CRC_PROPERTY_SIZE = 20, /* "__CRC32#" 0x01, ten digits, 0x02 */

    FLAG_COMPRESSED = 0x1,
    FLAG_MULTI_TAGS = 0x2,
    FLAG_COMPRESSION_TYPE = 0x700,
    FLAG_TRANSACTION = 0xC,
    FLAG_PREPARED = 0x4,
    FLAG_COMMIT = 0x8,
    FLAG_ROLLBACK = 0xC,
    FLAG_BORN_V6 = 0x10,
    FLAG_STORE_V6 = 0x20,
};

#define RECORD_MAGIC_V1 0xDAA320A7u
#define RECORD_MAGIC_V2 0xDAA320ABu
#define RECORD_MAGIC_END 0xCBD43194u

typedef struct {
    const uint8_t *bytes;
    uint32_t total, flags, time_at;
    uint32_t body_at, body_length, topic_at, topic_length, properties_at, properties_length;
} silo_record;

static inline uint32_t silo_host_size(uint32_t is_v6) { return is_v6 ? HOST_V6_SIZE : HOST_SIZE; }

/* Fields behind the first host of a parsed record. */
static inline const uint8_t *silo_store_host(const silo_record *m) {
    return m->bytes + m->time_at + RECORD_STORE_HOST - RECORD_STORE_TIMESTAMP;
}
static inline uint32_t silo_born_port(const silo_record *m) {
    return silo_be32(m->bytes + m->time_at - HOST_PORT_SIZE);
}
static inline uint32_t silo_reconsume_times(const silo_record *m) {
    return silo_be32(m->bytes + m->body_at - RECORD_BODY + RECORD_RECONSUME_TIMES);
}
static inline uint64_t silo_prepared_offset(const silo_record *m) {
    return silo_be64(m->bytes + m->body_at - RECORD_BODY + RECORD_PREPARED_TRANSACTION_OFFSET);
}

/* Writes the ten digits of a record's checksum, the lowest one first, as RocketMQ does. */
static inline void silo_put_crc_digits(uint8_t *p, uint32_t crc) {
    int i;
    for (i = 0; i < 10; i++, crc /= 10)
        p[i] = (uint8_t)('0' + crc % 10);
}

/* An end-of-file record, for the last `left` bytes of a file. */
static inline void silo_put_end_of_file(uint8_t *p, uint32_t left) {
    silo_put32(p + RECORD_TOTAL_SIZE, left);
    silo_put32(p + RECORD_MAGIC, RECORD_MAGIC_END);
}

/* The results of silo_parse_record. */
enum { RECORD_OK = 0, RECORD_END_OF_FILE = 1, RECORD_NONE = 2, RECORD_BAD = 3, RECORD_LONG = 4 };

/* Parses the record at `r`, where `left` bytes may be read. RECORD_NONE: there is no magic, as in
 * bytes that were never written. RECORD_BAD: there is a magic, but the lengths do not add up.
 * RECORD_LONG: the properties are longer than RocketMQ can read. */
static inline int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out) {
    if (left < END_OF_FILE_SIZE) return RECORD_NONE;
    uint32_t magic = silo_be32(r + RECORD_MAGIC);
    out->bytes = r;
    out->total = silo_be32(r + RECORD_TOTAL_SIZE);
    if (magic == RECORD_MAGIC_END) return RECORD_END_OF_FILE;
    if (magic != RECORD_MAGIC_V1 && magic != RECORD_MAGIC_V2) return RECORD_NONE;
    if (out->total < RECORD_FIXED || out->total > left) return RECORD_BAD;
    out->flags = silo_be32(r + RECORD_SYS_FLAG);
    uint32_t born = silo_host_size(out->flags & FLAG_BORN_V6) - HOST_SIZE;
    uint32_t hosts = born + silo_host_size(out->flags & FLAG_STORE_V6) - HOST_SIZE;
    uint32_t wide = magic == RECORD_MAGIC_V2, fixed = RECORD_FIXED + hosts + wide;
    if (out->total < fixed) return RECORD_BAD;
    out->time_at = RECORD_STORE_TIMESTAMP + born;
    out->body_at = RECORD_BODY + hosts;
    out->body_length = silo_be32(r + RECORD_BODY_LENGTH + hosts);
    if (out->body_length > out->total - fixed) return RECORD_BAD;
    const uint8_t *topic = r + out->body_at + out->body_length;
    out->topic_length = wide ? silo_be16(topic) : topic[0];
    out->topic_at = out->body_at + out->body_length + 1 + wide;
    if (out->topic_length > out->total - fixed - out->body_length) return RECORD_BAD;
    /* RocketMQ reads these lengths with their sign. */
    if (out->topic_length > (wide ? 32767u : 127u)) return RECORD_BAD;
    out->properties_at = out->topic_at + out->topic_length + 2;
    out->properties_length = silo_be16(r + out->properties_at - 2);
    if (out->properties_length > 32767) return RECORD_LONG;
    return out->properties_at + out->properties_length == out->total ? RECORD_OK : RECORD_BAD;
}

/* Whether the record ends in the pair __CRC32#. */
static inline int silo_has_crc_property(const silo_record *m) {
    const uint8_t *end = m->bytes + m->total;
    return m->properties_length >= CRC_PROPERTY_SIZE && end[-1] == 2 &&
           memcmp(end - CRC_PROPERTY_SIZE, "__CRC32#\x01", 9) == 0;
}

/* Whether a power cut lost a part of the record behind its body, so that zeros stand where none can
 * be. A loss in the body shows in its checksum, and one in the header in the lengths, but topic and
 * properties have no check. A lost sector (512 bytes of the file, in which the record begins at
 * `position`) holds the record's last byte, or lies within the record. */
static inline int silo_is_torn(const silo_record *m, uint64_t position) {
    static const uint8_t zero[RECORD_SECTOR];
    if (m->topic_length == 0) return 1;
    if (memchr(m->bytes + m->topic_at, 0, m->topic_length)) return 1;
    if (m->properties_length == 0) return 0;
    if (m->bytes[m->total - 1] == 0) return 1;
    uint64_t at = m->topic_at + -(position + m->topic_at) % RECORD_SECTOR;
    for (; at + RECORD_SECTOR <= m->total; at += RECORD_SECTOR)
        if (memcmp(m->bytes + at, zero, RECORD_SECTOR) == 0) return 1;
    return 0;
}

/* Whether the record has an entry in its queue: prepared and rolled-back messages have none. */
static inline int silo_is_queued(const silo_record *m) {
    uint32_t kind = m->flags & FLAG_TRANSACTION;
    return kind != FLAG_PREPARED && kind != FLAG_ROLLBACK;
}

#endif
