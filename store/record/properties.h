/* Finds the properties that kernels need in a record, and computes Java's String.hashCode.
 * store/record/properties.py and store/record/javahash.py own the rules; tests hold the two equal.
 */
#ifndef SILO_PROPERTIES_H
#define SILO_PROPERTIES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* LIGHT_DIGITS: the most digits of an offset in a light queue, and as many as append fills in.
 * LIGHT_MOST: in so many light queues append puts a message. */
enum { LIGHT_DIGITS = 19, LIGHT_MOST = 128 };

typedef struct {
    const uint8_t *at;
    uint32_t length;
} silo_text;

typedef struct {
    silo_text tags, keys, unique_key, delay, light_offsets;
} silo_properties;

/* Finds the five properties by RocketMQ's rules. Pairs end with 0x02. A pair counts if its first
 * 0x01 is neither its first nor its last byte. If a name occurs twice, the last value counts. */
static inline void silo_find_properties(const uint8_t *p, uint32_t length, silo_properties *out) {
    const uint8_t *end = p + length;
    memset(out, 0, sizeof *out);
    while (p < end) {
        const uint8_t *stop = memchr(p, 2, (size_t)(end - p));
        if (!stop) stop = end;
        const uint8_t *mid = memchr(p, 1, (size_t)(stop - p));
        if (mid && mid != p && mid + 1 != stop) {
            silo_text value = {mid + 1, (uint32_t)(stop - mid - 1)};
            ptrdiff_t name = mid - p;
            if (name == 4 && memcmp(p, "TAGS", 4) == 0) out->tags = value;
            else if (name == 4 && memcmp(p, "KEYS", 4) == 0) out->keys = value;
            else if (name == 8 && memcmp(p, "UNIQ_KEY", 8) == 0) out->unique_key = value;
            else if (name == 5 && memcmp(p, "DELAY", 5) == 0) out->delay = value;
            else if (name == 24 && memcmp(p, "INNER_MULTI_QUEUE_OFFSET", 24) == 0)
                out->light_offsets = value;
        }
        p = stop + 1;
    }
}

/* The next code point of UTF-8 text. A byte that begins no whole sequence is skipped and gives
 * U+FFFD. */
static inline uint32_t silo_utf8_next(const uint8_t **p, const uint8_t *end) {
    const uint8_t *s = *p;
    uint32_t c = *s, least = 0;
    int more = c < 0x80                ? 0
               : c >= 0xC2 && c < 0xE0 ? 1
               : c >= 0xE0 && c < 0xF0 ? 2
               : c >= 0xF0 && c < 0xF5 ? 3
                                       : -1;
    *p = s + 1;
    if (more <= 0) return more == 0 ? c : 0xFFFD;
    c &= 0x3Fu >> more;
    least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    if (end - s <= more) return 0xFFFD;
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0xFFFD;
        c = c << 6 | (s[i] & 0x3F);
    }
    if (c < least || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0xFFFD;
    *p = s + 1 + more;
    return c;
}

/* String.hashCode over UTF-16 code units, continued from `h`. Steps of four ASCII letters shorten
 * the chain of multiplications that depend on each other. */
static inline uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length) {
    const uint8_t *end = p + length;
    while (end - p >= 4 && !((p[0] | p[1] | p[2] | p[3]) & 0x80)) {
        h = h * 923521u + p[0] * 29791u + p[1] * 961u + p[2] * 31u + p[3];
        p += 4;
    }
    while (p < end) {
        uint32_t c = silo_utf8_next(&p, end);
        if (c >= 0x10000) {
            h = h * 31 + (0xD800 + ((c - 0x10000) >> 10));
            c = 0xDC00 + ((c - 0x10000) & 0x3FF);
        }
        h = h * 31 + c;
    }
    return h;
}

/* The hash of topic#key in the index: Math.abs of the Java hash, but 0 for -2^31. */
static inline uint32_t silo_index_hash(uint32_t topic_hash, const uint8_t *key, uint32_t length) {
    int32_t h = (int32_t)silo_java_hash(topic_hash * 31 + '#', key, length);
    return h == INT32_MIN ? 0 : (uint32_t)(h < 0 ? -h : h);
}

/* The keys under which the index has a message: UNIQ_KEY first, then the pieces of KEYS between
 * spaces. `silo_next_key` returns 0 when there is none left. */
typedef struct {
    silo_text unique;
    const uint8_t *at, *end;
} silo_keys;

static inline void silo_first_key(const silo_properties *found, silo_keys *keys) {
    keys->unique = found->unique_key;
    keys->at = found->keys.at;
    keys->end = found->keys.at + found->keys.length;
}

static inline int silo_next_key(silo_keys *keys, silo_text *key) {
    if (keys->unique.length) {
        *key = keys->unique;
        keys->unique.length = 0;
        return 1;
    }
    while (keys->at < keys->end) {
        const uint8_t *stop = memchr(keys->at, ' ', (size_t)(keys->end - keys->at));
        if (!stop) stop = keys->end;
        key->at = keys->at;
        key->length = (uint32_t)(stop - keys->at);
        keys->at = stop + 1;
        if (key->length) return 1;
    }
    return 0;
}

/* Whether a property may be INNER_MULTI_QUEUE_OFFSET: whether "ET" ends a name. Append asks this of
 * each record, so it compares 16 bytes at a time, the last of them perhaps twice, and does not look
 * for pairs. The property has at least 26 bytes. */
static inline int silo_may_name_light(const uint8_t *p, uint32_t length) {
    typedef uint8_t bytes16 __attribute__((vector_size(16)));
    bytes16 e, t, one, hit = {0};
    uint64_t half[2];
    if (length < 26) return 0;
    for (uint32_t i = 0, last = length - 18;; i = i + 16 < last ? i + 16 : last) {
        memcpy(&e, p + i, 16);
        memcpy(&t, p + i + 1, 16);
        memcpy(&one, p + i + 2, 16);
        hit |= (bytes16)(e == 'E') & (bytes16)(t == 'T') & (bytes16)(one == 1);
        if (i == last) break;
    }
    memcpy(half, &hit, sizeof half);
    return (half[0] | half[1]) != 0;
}

/* Whether messages of a topic may lie in light queues (`MixAll.topicAllowsLMQ`). */
static inline int silo_may_be_light(const uint8_t *topic, uint32_t length) {
    if (length >= 7 && memcmp(topic, "%RETRY%", 7) == 0) return 0;
    if (length >= 8 && memcmp(topic, "rmq_sys_", 8) == 0) return 0;
    return length != 19 || memcmp(topic, "SCHEDULE_TOPIC_XXXX", 19) != 0;
}

static inline int silo_is_light(silo_text name) {
    return name.length >= 5 && memcmp(name.at, "%LMQ%", 5) == 0;
}

/* The id of the queue `name` of a message in queue `queue_id`: a light queue's is 0. RocketMQ 4.9
 * also takes other names, which are further topics. */
static inline uint32_t silo_light_id(silo_text name, uint32_t queue_id) {
    return silo_is_light(name) ? 0 : queue_id;
}

/* For append: writes the offset in a light queue over the digits in a record. */
static inline void silo_put_light_offset(silo_text digits, uint64_t offset) {
    uint8_t *p = (uint8_t *)digits.at;
    for (int i = LIGHT_DIGITS - 1; i >= 0; i--, offset /= 10) p[i] = (uint8_t)('0' + offset % 10);
}

/* The light queues (LMQ) that a message names, each with the message's offset there: the lists with
 * commas INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET. As in Java's String.split, commas at
 * the end of a list count for nothing. `digits` is the offset that silo_next_light took last. */
typedef struct {
    silo_text names, offsets, digits;
} silo_lights;

static inline uint32_t silo_trim_commas(silo_text *list) {
    uint32_t count = 1;
    while (list->length > 1 && list->at[list->length - 1] == ',') list->length--;
    for (uint32_t i = 0; i < list->length; i++) count += list->at[i] == ',';
    return count;
}

/* Returns how many light queues there are: 0 if the lists differ in length. `offsets` is the value
 * of the second list. */
static inline uint32_t silo_first_light(const uint8_t *p, uint32_t length, silo_text offsets,
                                        silo_lights *out) {
    const uint8_t *end = p + length;
    silo_text names = {p, 0};
    while (p < end) {
        const uint8_t *stop = memchr(p, 2, (size_t)(end - p));
        if (!stop) stop = end;
        if (stop - p > 21 && memcmp(p, "INNER_MULTI_DISPATCH\x01", 21) == 0) {
            names.at = p + 21;
            names.length = (uint32_t)(stop - names.at);
        }
        p = stop + 1;
    }
    if (names.length == 0 || offsets.length == 0) return 0;
    out->names = names;
    out->offsets = offsets;
    uint32_t count = silo_trim_commas(&out->names);
    return silo_trim_commas(&out->offsets) == count ? count : 0;
}

static inline silo_text silo_cut_item(silo_text *list) {
    const uint8_t *comma = memchr(list->at, ',', list->length);
    silo_text item = {list->at, comma ? (uint32_t)(comma - list->at) : list->length};
    uint32_t used = item.length + (comma != NULL);
    list->at += used;
    list->length -= used;
    return item;
}

/* The number that an item of INNER_MULTI_QUEUE_OFFSET is; 0 if it is none. Append writes it with
 * leading zeros. The bound keeps positions in queue files within 63 bits. */
static inline int silo_light_offset(silo_text digits, uint64_t *offset) {
    *offset = 0;
    if (digits.length == 0 || digits.length > LIGHT_DIGITS) return 0;
    for (uint32_t i = 0; i < digits.length; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9') return 0;
        *offset = *offset * 10 + (digits.at[i] - '0');
    }
    return *offset <= INT64_MAX / 32;
}

/* Takes the next pair from both lists. Returns 0 if it names no queue or no offset: a name that
 * cannot be a folder's, or a text that is not a number from 0 on. */
static inline int silo_next_light(silo_lights *lists, silo_text *name, uint64_t *offset) {
    *name = silo_cut_item(&lists->names);
    lists->digits = silo_cut_item(&lists->offsets);
    if (!silo_light_offset(lists->digits, offset)) return 0;
    if (name->length == 0 || name->length > 255 || name->at[0] == '.') return 0;
    return !memchr(name->at, '/', name->length) && !memchr(name->at, 0, name->length);
}

/* Whether INNER_MULTI_QUEUE_OFFSET names an offset: a list with commas of the message's offsets in
 * light queues (LMQ). */
static inline int silo_has_light_offset(const uint8_t *p, uint32_t length, int64_t offset) {
    silo_properties found;
    uint64_t number;
    silo_find_properties(p, length, &found);
    while (found.light_offsets.length) {
        silo_text digits = silo_cut_item(&found.light_offsets);
        if (silo_light_offset(digits, &number) && (int64_t)number == offset) return 1;
    }
    return 0;
}

/* Integer.parseInt of a delay level; 0 for text that is not a number, or a negative one. */
static inline int silo_parse_level(silo_text t) {
    int64_t v = 0;
    uint32_t i = t.length && t.at[0] == '+';
    if (i == t.length) return 0;
    for (; i < t.length; i++) {
        if (t.at[i] < '0' || t.at[i] > '9') return 0;
        v = v * 10 + (t.at[i] - '0');
        if (v > INT32_MAX) return 0;
    }
    return (int)v;
}

/* Whether text is valid UTF-8. Most text is ASCII, of which a step tests eight letters. */
static inline int silo_is_utf8(const uint8_t *p, uint32_t length) {
    const uint8_t *end = p + length;
    while (p < end) {
        uint64_t w;
        if (end - p >= 8) {
            memcpy(&w, p, 8);
            if (!(w & 0x8080808080808080u)) {
                p += 8;
                continue;
            }
        }
        /* U+FFFD in the text takes three bytes; for a bad byte, one byte was skipped. */
        const uint8_t *before = p;
        if (silo_utf8_next(&p, end) == 0xFFFD && p == before + 1) return 0;
    }
    return 1;
}

#endif
