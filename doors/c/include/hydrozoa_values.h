// Makers of values, included by hydrozoa.h. They copy nothing: what a pointer refers to must live as long as the value
// is used.

#ifndef HYDROZOA_VALUES_H
#define HYDROZOA_VALUES_H

#include "hydrozoa.h"

static inline hz_value hz_none(void) {
    hz_value value;
    value.kind = HZ_VALUE_NONE;
    value.len = 0;
    value.data.integer = 0;
    return value;
}

static inline hz_value hz_bool(bool truth) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_BOOL;
    value.data.integer = truth ? 1 : 0;
    return value;
}

static inline hz_value hz_int(int64_t integer) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_INT;
    value.data.integer = integer;
    return value;
}

static inline hz_value hz_float(double real) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_FLOAT;
    value.data.real = real;
    return value;
}

// `text` is UTF-8 of so many bytes, and need not end with NUL.
static inline hz_value hz_text(const char *text, size_t len) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_STR;
    value.len = len;
    value.data.text = text;
    return value;
}

// `text` is UTF-8 and ends with NUL.
static inline hz_value hz_str(const char *text) {
    size_t len = 0;
    while (text != NULL && text[len] != 0) {
        len++;
    }
    return hz_text(text != NULL ? text : "", len);
}

static inline hz_value hz_bytes_value(const void *bytes, size_t len) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_BYTES;
    value.len = len;
    value.data.bytes = (const uint8_t *)bytes;
    return value;
}

static inline hz_value hz_list(const hz_value *items, size_t count) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_LIST;
    value.len = count;
    value.data.items = items;
    return value;
}

static inline hz_value hz_tuple(const hz_value *items, size_t count) {
    hz_value value = hz_list(items, count);
    value.kind = HZ_VALUE_TUPLE;
    return value;
}

// `items` are `pairs` times a key and its value.
static inline hz_value hz_dict(const hz_value *items, size_t pairs) {
    hz_value value = hz_list(items, pairs);
    value.kind = HZ_VALUE_DICT;
    return value;
}

// An object of the interpreter that gets the value.
static inline hz_value hz_reference(const hz_object *object) {
    hz_value value = hz_none();
    value.kind = HZ_VALUE_OBJECT;
    value.data.object = object;
    return value;
}

static inline hz_keyword hz_named(const char *name, hz_value value) {
    hz_keyword keyword;
    keyword.name = name;
    keyword.value = value;
    return keyword;
}

#endif  // HYDROZOA_VALUES_H
