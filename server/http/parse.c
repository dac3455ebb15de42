/*
 * Each document is a table of its fields; one walk over the table reads all
 * that are there and collects all that is wrong with them.
 */
#include "server/http/parse.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/http/scratch.h"
#include "server/http/stamp.h"

/* What a field may hold. A TIME is text or null, and becomes milliseconds. */
enum kind { INTEGER, TEXT, TIME };

/*
 * One row says all about a field: what it is called, takes, and where it goes.
 */
struct field {
    const char *name;
    enum kind kind;
    bool optional;
    int64_t min, max;  /* of INTEGER */
    size_t at;         /* in the struct: int64_t, or char[] for TEXT */
    size_t room;       /* of TEXT */
    const char *range; /* what to say of an INTEGER out of it; NULL: which end
                          it is beyond */
};

/* The body of POST /api/orders. */
#define AT(member) offsetof(struct store_order, member)
static const struct field order_fields[] = {
    {"product_id", INTEGER, false, 1, STORE_NUMBER_MAX, AT(product_id), 0,
     NULL},
    {"user_id", INTEGER, false, 1, STORE_NUMBER_MAX, AT(user_id), 0, NULL},
    {"quantity", INTEGER, false, 1, PARSE_QUANTITY_MAX, AT(quantity), 0, NULL},
    {0},
};
#undef AT

/* The body of PUT /api/products/{id}. */
static_assert(STORE_SEGMENTS_MAX == 256, "the text below says so");
#define AT(member) offsetof(struct store_product, member)
static const struct field product_fields[] = {
    {"name", TEXT, false, 0, 0, AT(name), STORE_NAME_BYTES_MAX + 1, NULL},
    {"stock", INTEGER, true, 0, STORE_NUMBER_MAX, AT(initial), 0, NULL},
    {"price_cents", INTEGER, true, 0, PARSE_PRICE_CENTS_MAX, AT(price_cents), 0,
     NULL},
    {"limit_per_user", INTEGER, true, 0, STORE_NUMBER_MAX, AT(limit_per_user),
     0, NULL},
    {"segments", INTEGER, true, 1, STORE_SEGMENTS_MAX, AT(segments), 0,
     "has to be 1 to 256"},
    {"opens_at", TIME, true, 0, 0, AT(opens_ms), 0, NULL},
    {"ends_at", TIME, true, 0, 0, AT(ends_ms), 0, NULL},
    {0},
};
#undef AT

/* The body of a restock: one number, into an int64_t of its own. */
static const struct field restock_fields[] = {
    {"quantity", INTEGER, false, 1, STORE_NUMBER_MAX, 0, 0, NULL},
    {0},
};

/*
 * jansson would seed itself at the first object, from whichever thread comes
 * first. Its hash is keyed, so that nobody can send a body of collisions.
 */
void parse_init(void)
{
    json_set_alloc_funcs(scratch_malloc, scratch_free);
    json_object_seed(0);
}

/* The document as a whole is wrong. */
static bool fail(struct parse_error *error, enum problem problem,
                 const char *detail)
{
    error->problem = problem;
    snprintf(error->detail, sizeof(error->detail), "%s", detail);
    return false;
}

/* Notes what is wrong with a field; its name may come from the client. */
static void fault(struct parse_error *error, const char *field,
                  const char *detail)
{
    struct parse_fault *at;

    error->problem = PROBLEM_FIELDS;
    if (error->faults_n == PARSE_FAULTS_MAX)
        return;
    at = &error->faults[error->faults_n++];
    at->detail = detail;
    /* Not cut in the middle of a character: long ones are not shown. */
    snprintf(at->field, sizeof(at->field), "%s",
             strlen(field) < sizeof(at->field) ? field : "(a long name)");
    if (error->faults_n == 1)
        snprintf(error->detail, sizeof(error->detail), "%s: %s", at->field,
                 detail);
}

/* The index behind the string of which I is the first character, or more. */
static size_t skip_string(const char *body, size_t size, size_t i)
{
    /* An escaped quote does not end it. */
    for (; i < size && body[i] != '"'; i++)
        i += body[i] == '\\';
    return i + 1;
}

/* Counts brackets outside of strings, which is cheaper than recursing. */
static bool is_shallow(const char *body, size_t size)
{
    size_t i = 0;
    int depth = 0;

    while (i < size && depth <= PARSE_DEPTH_MAX)
        switch (body[i++]) {
        case '"':
            i = skip_string(body, size, i);
            break;
        case '[':
        case '{':
            depth++;
            break;
        case ']':
        case '}':
            depth--;
            break;
        }
    return depth <= PARSE_DEPTH_MAX;
}

/* jansson's message repeats some of the input, which may not be UTF-8. */
static void tell_syntax(struct parse_error *error, const json_error_t *wrong)
{
    char *c;

    error->problem = PROBLEM_BAD_JSON;
    /* Well-formed, but not acceptable. */
    if (json_error_code(wrong) == json_error_duplicate_key ||
        json_error_code(wrong) == json_error_numeric_overflow)
        error->problem = PROBLEM_FIELDS;
    snprintf(error->detail, sizeof(error->detail), "line %d, column %d: %s",
             wrong->line, wrong->column, wrong->text);
    for (c = error->detail; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/*
 * The object, or NULL and what is wrong. Integers that do not fit, and names
 * that are there twice, are well-formed JSON: they are faults of fields, and
 * only jansson happens to notice them while it parses.
 */
static json_t *load(const char *body, size_t size, struct parse_error *error)
{
    json_error_t wrong;
    json_t *json;

    error->problem = PROBLEM_NONE;
    error->detail[0] = '\0';
    error->faults_n = 0;
    if (!is_shallow(body, size)) {
        fail(error, PROBLEM_BAD_JSON, "the JSON is nested too deeply");
        return NULL;
    }
    scratch_begin();
    json = json_loadb(body, size, JSON_REJECT_DUPLICATES, &wrong);
    scratch_end();
    if (!json) {
        tell_syntax(error, &wrong);
    } else if (!json_is_object(json)) {
        fail(error, PROBLEM_FIELDS, "the body has to be a JSON object");
        json_decref(json);
        json = NULL;
    }
    return json;
}

/*
 * The readers of values: NULL, and *OUT is set; or what is wrong, to be said
 * after the field's name. "1.0" and "1e0" are reals to JSON's readers, and
 * refused.
 */
static const char *read_integer(const struct field *field, const json_t *value,
                                int64_t *out)
{
    json_int_t number = json_integer_value(value);

    if (!json_is_integer(value))
        return "has to be an integer";
    if (field->range && (number < field->min || number > field->max))
        return field->range;
    if (number < field->min)
        return field->min ? "has to be at least 1" : "must not be negative";
    if (number > field->max)
        return "is too large";
    *out = number;
    return NULL;
}

static const char *read_text(const struct field *field, const json_t *value,
                             char *out)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value), i;

    if (!text)
        return "has to be a string";
    if (!size)
        return "must not be empty";
    if (size >= field->room)
        return "is too long";
    /* Names go to terminals and logs: no escape sequences. */
    for (i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return "has a control character in it";
    memcpy(out, text, size + 1);
    return NULL;
}

/* OUT points to the field's place in the struct. */
static const char *read_field(const struct field *field, const json_t *value,
                              void *out)
{
    const char *text;

    switch (field->kind) {
    case INTEGER:
        return read_integer(field, value, out);
    case TEXT:
        return read_text(field, value, out);
    case TIME:
        *(int64_t *)out = 0;
        text = json_string_value(value);
        if (json_is_null(value) || (text && stamp_read(text, out)))
            return NULL;
        break;
    }
    return "has to be a UTC time such as 2030-01-01T12:00:00Z, or null";
}

/*
 * What is missing keeps what the struct had before. Returns how many fields the
 * document has.
 */
static size_t read_known(const json_t *json, const struct field *fields,
                         char *out, struct parse_error *error)
{
    const struct field *field;
    const json_t *value;
    const char *wrong;
    size_t found = 0;

    for (field = fields; field->name; field++) {
        value = json_object_get(json, field->name);
        found += value != NULL;
        if (value)
            wrong = read_field(field, value, out + field->at);
        else
            wrong = field->optional ? NULL : "is missing";
        if (wrong)
            fault(error, field->name, wrong);
    }
    return found;
}

static void find_unknown(json_t *json, const struct field *fields,
                         struct parse_error *error)
{
    const struct field *field;
    const char *name;
    json_t *value;

    json_object_foreach(json, name, value)
    {
        for (field = fields; field->name && strcmp(field->name, name) != 0;)
            field++;
        if (!field->name)
            fault(error, name, "is not known here");
    }
}

/* OUT is filled as far as the fields are right. */
static bool parse_document(const char *body, size_t size,
                           const struct field *fields, void *out,
                           struct parse_error *error, json_t **kept)
{
    json_t *json = load(body, size, error);

    if (!json)
        return false;
    /* Unknown fields are told after what is wrong with the known ones. */
    if (read_known(json, fields, out, error) < json_object_size(json))
        find_unknown(json, fields, error);
    if (kept && error->problem == PROBLEM_NONE)
        *kept = json;
    else
        json_decref(json);
    return error->problem == PROBLEM_NONE;
}

/* The three documents. What they have in common is above. */
bool parse_order(const char *body, size_t size, struct store_order *order,
                 struct parse_error *error)
{
    return parse_document(body, size, order_fields, order, error, NULL);
}

bool parse_restock(const char *body, size_t size, int64_t *quantity,
                   struct parse_error *error)
{
    return parse_document(body, size, restock_fields, quantity, error, NULL);
}

/*
 * Needs the JSON a moment longer: whether "stock" was there cannot be seen from
 * the number that came out.
 */
bool parse_product(const char *body, size_t size, struct store_product *product,
                   bool *has_stock, struct parse_error *error)
{
    json_t *json;

    if (!parse_document(body, size, product_fields, product, error, &json))
        return false;
    *has_stock = json_object_get(json, "stock") != NULL;
    json_decref(json);
    if (product->ends_ms && product->ends_ms <= product->opens_ms)
        fault(error, "ends_at", "has to be after opens_at");
    return error->problem == PROBLEM_NONE;
}

/*
 * The draft makes it a quoted string with backslash escapes for the quote and
 * the backslash, and nearly everybody sends it bare. Both mean the same key.
 */
bool parse_key(const char *text, char *key)
{
    bool quoted = *text == '"';
    size_t n = 0;

    text += quoted;
    while (*text && !(quoted && *text == '"')) {
        if (quoted && *text == '\\' && text[1] != '"' && text[1] != '\\')
            return false;
        text += quoted && *text == '\\';
        if (*text <= ' ' || *text > '~' || n == STORE_KEY_BYTES_MAX)
            return false;
        key[n++] = *text++;
    }
    key[n] = '\0';
    return n && !strcmp(text, quoted ? "\"" : "");
}

bool parse_number(const char *text, int64_t *number)
{
    int64_t value = 0;
    size_t i;

    /* Sixteen digits hold STORE_NUMBER_MAX and cannot overflow. */
    for (i = 0; text[i]; i++) {
        if (text[i] < '0' || text[i] > '9' || i == 16)
            return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value < 1 || value > STORE_NUMBER_MAX || text[0] == '0')
        return false;
    *number = value;
    return true;
}
