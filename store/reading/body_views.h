/* Arrow's views of binary data, for bodies that stay where they lie. */
#ifndef SILO_BODY_VIEWS_H
#define SILO_BODY_VIEWS_H

#include "store/reading/arrow_buffers.h"

enum { VIEW_INLINE = 12 };

/* A view: bytes of up to VIEW_INLINE lie in the view itself. Others begin at `offset` of buffer
 * number `buffer`, and the view repeats their first four. */
typedef struct {
    int32_t length;
    union {
        uint8_t inlined[VIEW_INLINE];
        struct {
            uint8_t prefix[4];
            int32_t buffer, offset;
        };
    };
} silo_view;

_Static_assert(sizeof(silo_view) == 16, "Arrow's views have 16 bytes");

typedef struct {
    int wanted;
    silo_buffer copied;        /* buffer 0: bodies that lie nowhere else */
    const uint8_t *source;     /* where buffer number `number` begins: what is read now */
    int32_t number;
} silo_views;

/* Adds a view of a body to `to`; an empty one if `body` is NULL. A body that does not lie in the
 * source is copied. Returns 0 without memory. */
static inline int silo_add_view(silo_views *v, silo_column *to, const uint8_t *body,
                                uint32_t length, int lies_in_source) {
    silo_view view;
    memset(&view, 0, sizeof view);
    if (body && length <= VIEW_INLINE) {
        view.length = (int32_t)length;
        memcpy(view.inlined, body, length);
    } else if (body) {
        view.length = (int32_t)length;
        memcpy(view.prefix, body, sizeof view.prefix);
        if (lies_in_source) {
            view.buffer = v->number;
            view.offset = (int32_t)(body - v->source);
        } else {
            if (!silo_reserve(&v->copied, length)) return 0;
            view.offset = (int32_t)v->copied.used;
            memcpy(v->copied.data + v->copied.used, body, length);
            v->copied.used += length;
        }
    }
    if (!silo_reserve(&to->data, sizeof view)) return 0;
    memcpy(to->data.data + to->data.used, &view, sizeof view);
    to->data.used += sizeof view;
    return 1;
}

#endif
