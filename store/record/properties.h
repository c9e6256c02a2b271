/* Finds the properties that kernels need in a record, and computes Java's String.hashCode.
 * store/record/properties.py and store/record/javahash.py own the rules; tests hold the two equal.
 */
#ifndef SILO_PROPERTIES_H
#define SILO_PROPERTIES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *at;
    uint32_t length;
} silo_text;

typedef struct {
    silo_text tags, keys, unique_key, delay;
} silo_properties;

/* Finds the four properties by RocketMQ's rules. Pairs end with 0x02. A pair counts if its first
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
