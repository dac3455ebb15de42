/* See store_story.h. */
#include "tests/support/store_story.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "tests/support/store_wait.h"
#include "tests/support/words.h"

enum { WORDS_MAX = 12, TEXT_BYTES_MAX = 500, ASKED_MAX = 4 };

struct words {
    const char *at[WORDS_MAX];
    size_t n;
};

static struct {
    struct store_rig rig; /* first: it is torn down as one */
    const struct store_story *story;
    const char *statement;
    struct store_product products[10]; /* as they were put */
    struct store_order orders[26], *asked[ASKED_MAX];
    size_t asked_n;
    sqlite3 *busy;
    atomic_int failures_n;
    bool fed;
} play;

void (*store_story_clock)(int64_t ahead_ms);

static void wrong(const char *what, const char *found)
{
    fail_msg("'%s': %s: %s", play.statement, what, found);
}

/* ---- words ---------------------------------------------------------------- */

static struct words words_of(char *text)
{
    struct words words = {.n = 0};
    char *rest = NULL;

    for (size_t i = 0; i < WORDS_MAX; i++)
        words.at[i] = "";
    for (char *word = text ? strtok_r(text, " ", &rest) : NULL; word != NULL;
         word = next_word(&rest)) {
        assert_true(words.n < WORDS_MAX);
        words.at[words.n++] = word;
    }
    return words;
}

static bool has(const struct words *words, const char *which)
{
    for (size_t i = 0; i < words->n; i++)
        if (is(words->at[i], which))
            return true;
    return false;
}

/* Of "KEY=VALUE"; or NULL. */
static const char *value(const struct words *words, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < words->n; i++)
        if (strncmp(words->at[i], key, len) == 0 && words->at[i][len] == '=')
            return words->at[i] + len + 1;
    return NULL;
}

static int64_t number(const char *text)
{
    int64_t more = strtoll(text, NULL, 10);

    if (strncmp(text, "max", 3) == 0)
        return STORE_NUMBER_MAX + strtoll(text + 3, NULL, 10);
    if (!isdigit((unsigned char)text[text[0] == '-']))
        wrong("no number", text);
    return more;
}

/* The one behind the verb, or 0. */
static int64_t first_number(const struct words *words, size_t at)
{
    return at < words->n && !strchr(words->at[at], '=') ? number(words->at[at])
                                                        : 0;
}

static int64_t number_or(const struct words *words, const char *key,
                         int64_t otherwise)
{
    const char *text = value(words, key);

    return text ? number(text) : otherwise;
}

/* WANTED is a number, or "FROM..TO". */
static void expect(const char *what, const char *wanted, int64_t found)
{
    const char *dots = strstr(wanted, "..");
    int64_t from = number(wanted), to = dots ? number(dots + 2) : from;

    if (found < from || found > to)
        wrong(what, text_of("%" PRId64, found));
}

static void expect_text(const struct words *words, const char *key,
                        const char *found)
{
    const char *wanted = value(words, key);

    if (wanted && strcmp(wanted, found) != 0)
        wrong(key, found);
}

static void expect_status(const struct words *then, enum store_status status)
{
    static const char *const names[] = {
#define NAME(name, text) #name,
        STORE_STATUS_MAP(NAME)};
    const char *wanted = then->n > 0 ? then->at[0] : "ok";
    char name[40] = "";

    for (size_t i = strlen("STORE_"); names[status][i]; i++)
        name[i - strlen("STORE_")] =
            (char)(names[status][i] == '_' ? '-' : tolower(names[status][i]));
    if (strchr(wanted, '=') || is(wanted, "again"))
        wanted = "ok";
    if (!is(wanted, name))
        wrong("status", name);
}

/* ---- numbers of what is stored --------------------------------------------- */

/* Two integers of 64 bits are told by their difference. */
struct field {
    const char *name;
    size_t at, minus;
};
#define FIELD(name, type, member)                                              \
    {                                                                          \
        name, offsetof(struct type, member), 0                                 \
    }
#define BETWEEN(name, type, member, other)                                     \
    {                                                                          \
        name, offsetof(struct type, member), offsetof(struct type, other)      \
    }

static const struct field order_fields[] = {
    FIELD("qty", store_order, quantity),
    FIELD("seg", store_order, segment),
    FIELD("segs", store_order, segments),
    FIELD("richest", store_order, richest),
    FIELD("number", store_order, number),
    FIELD("price", store_order, price_cents),
    FIELD("fence", store_order, fence),
    FIELD("late", store_order, late),
    FIELD("until", store_order, pay_until_ms),
    BETWEEN("within", store_order, pay_until_ms, created_ms),
    BETWEEN("early", store_order, pay_until_ms, paid_ms),
    BETWEEN("over", store_order, cancelled_ms, pay_until_ms),
};
static const struct field product_fields[] = {
    FIELD("units", store_product, initial),
    FIELD("stock", store_product, stock),
    FIELD("segs", store_product, segments),
    FIELD("epoch", store_product, epoch),
    FIELD("price", store_product, price_cents),
};
static const struct field audit_fields[] = {
#define ROW(member, ...) FIELD(#member, store_audit, member),
#include "db/audit.inc"
};
static const struct field units_fields[] = {
    FIELD("left", store_units, left),
    FIELD("stranded", store_units, stranded),
    FIELD("held", store_units, held),
};

static int64_t number_at(const void *found, size_t at)
{
    int64_t number;

    memcpy(&number, (const char *)found + at, sizeof(number));
    return number;
}

/* OTHERS: words that were seen to. */
static void expect_fields(const struct words *words, const void *found,
                          const struct field fields[], size_t n,
                          const char *others)
{
    size_t known_n = 0, n_words = 0;

    for (size_t i = 0; i < words->n; i++) {
        const char *sign = strchr(words->at[i], '=');

        n_words += sign &&
                   !strstr(others, text_of(" %.*s ", (int)(sign - words->at[i]),
                                           words->at[i]));
    }
    for (size_t i = 0; i < n; i++) {
        const char *wanted = value(words, fields[i].name);

        if (!wanted)
            continue;
        known_n++;
        expect(fields[i].name, wanted,
               number_at(found, fields[i].at) -
                   (fields[i].minus ? number_at(found, fields[i].minus) : 0));
    }
    if (known_n != n_words)
        wrong("a word", "which nobody knows");
}
#define EXPECT_FIELDS(words, found, fields, others)                            \
    expect_fields(words, found, fields, COUNT_OF(fields), others)

/* ---- orders ----------------------------------------------------------------- */

/* Of "LOCK/TOKEN/OWNER"; NULL: of none. */
static const struct store_fence *fence_of(const struct words *words,
                                          const char *text)
{
    static char copy[TEXT_BYTES_MAX];
    static struct store_fence fence;
    char *rest = NULL;

    if (text == NULL)
        return NULL;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    fence = (struct store_fence){.name = strtok_r(copy, "/", &rest),
                                 .late = has(words, "late")};
    fence.token = (uint64_t)number(strtok_r(NULL, "/", &rest));
    fence.owner = strtok_r(NULL, "/", &rest);
    return &fence;
}

static enum store_status place(struct store_order *orders[], size_t n,
                               const struct words *words)
{
    const struct store_fence *fence = fence_of(words, value(words, "under"));
    struct store_lot lot = {.orders = orders, .n = n, .fence = fence};

    return play.fed && !has(words, "alone")
               ? store_rig_go(&play.rig, &lot, 1)
               : store_place(play.rig.store, orders, n, fence, NULL);
}

static void ask(struct store_order *order, const struct words *words)
{
    const char *key = value(words, "key");

    *order =
        store_rig_ask(number_or(words, "of", 1), number_or(words, "user", 1),
                      first_number(words, 2), key ? key : "");
    order->segment = number_or(words, "seg", 0);
    order->gather = has(words, "gather");
}

static void expect_order(const struct words *then,
                         const struct store_order *order)
{
    const char *same = value(then, "same"), *later = value(then, "later");

    if (later &&
        order->pay_until_ms <= play.orders[later[0] - 'a'].pay_until_ms)
        wrong("to be paid", "not later");
    if (has(then, "again") != order->replayed)
        wrong("replayed", order->replayed ? "again" : "not again");
    if (same && strcmp(play.orders[same[0] - 'a'].id, order->id) != 0)
        wrong("id", order->id);
    expect_text(then, "latest", order->late_payment);
    expect_text(then, "payment", order->payment);
    EXPECT_FIELDS(then, order, order_fields,
                  " same later latest payment stock ");
}

/* "is" and "becomes". */
static void expect_state(const struct words *words, const char *id)
{
    static const char *const states[] = {"placed", "awaiting", "paid",
                                         "cancelled", "expired"};
    struct store_order found;

    do
        assert_ok(store_order_get(play.rig.reader, id, &found, NULL));
    while (is(words->at[1], "becomes") &&
           !is(words->at[2], states[found.state]) && usleep(2000) == 0);
    if (!is(words->at[2], states[found.state]))
        wrong("state", states[found.state]);
    expect_order(words, &found);
}

/* The order as it is told then. */
static struct store_order do_verb(struct store_order *mine,
                                  const struct words *words,
                                  const struct words *then)
{
    const char *verb = words->at[1];
    struct store_order *one[] = {mine}, told;
    struct store_pay pay;
    int64_t stock = 0;

    if (!is(verb, "pays") && words->n > 2 && !strchr(words->at[2], '='))
        ask(mine, words);
    if (is(verb, "buys"))
        (void)place(one, 1, words);
    else if (is(verb, "asks")) {
        assert_true(play.asked_n < ASKED_MAX);
        play.asked[play.asked_n++] = mine;
    } else if (is(verb, "looks")) {
        assert_ok(store_naive_select(play.rig.reader, mine, &stock, NULL));
        expect("stock", value(then, "stock") ? value(then, "stock") : "0..max",
               stock);
    } else if (is(verb, "inserts"))
        (void)store_naive_insert(play.rig.store, mine,
                                 fence_of(words, value(words, "under")), NULL);
    told = *mine;
    if (is(verb, "cancels")) {
        told.replayed = false;
        told.status = store_cancel(play.rig.store, mine->id, &told, NULL);
    } else if (is(verb, "pays")) {
        told.status = store_pay(play.rig.store, mine->id, words->at[2], &pay);
        told.replayed = pay.replayed;
    }
    return told;
}

static void do_order(const struct words *words, const struct words *then)
{
    struct store_order *mine = &play.orders[words->at[0][0] - 'a'], told;

    if (is(words->at[1], "is") || is(words->at[1], "becomes")) {
        expect_state(words, mine->id);
        return;
    }
    told = do_verb(mine, words, then);
    expect_status(then, told.status);
    expect_order(then, &told);
}

/* ---- all else --------------------------------------------------------------- */

static enum store_status put(const struct words *words)
{
    int64_t id = number_or(words, "of", 1);
    struct store_product product = play.products[id];
    enum store_status status;

    product.id = id;
    (void)snprintf(product.name, sizeof(product.name), "Thing");
    product.initial = number_or(words, "units", product.initial);
    product.segments = number_or(words, "segs", product.segments);
    product.limit_per_user = number_or(words, "limit", product.limit_per_user);
    product.price_cents = number_or(words, "price", product.price_cents);
    product.pay_within_s = number_or(words, "pay", product.pay_within_s);
    product.ends_ms = number_or(words, "ends", product.ends_ms);
    status = store_product_put(play.rig.store, &product, NULL, NULL);
    if (status == STORE_OK)
        play.products[id] = product;
    return status;
}

static enum store_status restock(const struct words *words,
                                 const struct words *then)
{
    int64_t id = number_or(words, "of", 1);
    struct store_product *product = &play.products[id], now;
    const char *key = value(words, "key");
    enum store_status status = store_restock(
        play.rig.store, id, first_number(words, 1), key ? key : "", &now, NULL);

    if (status == STORE_OK) {
        EXPECT_FIELDS(then, &now, product_fields, "");
        product->initial = now.initial;
    }
    return status;
}

/* What a verb of the store ends with; STORE_STATUS_N: it is another one. */
static enum store_status ask_store(const struct words *words,
                                   const struct words *then)
{
    const char *verb = words->at[0], *under = value(words, "under");
    struct store *store = play.rig.store;
    int64_t id = number_or(words, "of", 1);
    enum store_status status = STORE_STATUS_N;
    uint64_t token = 0;
    bool moved = false;

    if (is(verb, "put"))
        return put(words);
    if (is(verb, "restock"))
        return restock(words, then);
    if (is(verb, "stamp"))
        return store_stamp(store, fence_of(words, words->at[1]), NULL);
    if (is(verb, "write"))
        return store_naive_update(store, id, 0, first_number(words, 1),
                                  fence_of(words, under), NULL);
    if (is(verb, "go")) {
        status = place(play.asked, play.asked_n, words);
        play.asked_n = 0;
    } else if (is(verb, "floor")) {
        status =
            store_fence_floor(play.rig.reader, id, words->at[1], &token, NULL);
        expect("floor", words->at[2], (int64_t)token);
    } else if (is(verb, "even")) {
        status = store_even_out(store, id, &moved, NULL);
        if (status == STORE_OK && has(then, "again") == moved)
            wrong("even", moved ? "moved" : "not moved");
    }
    return status;
}

static void look(const char *verb, const struct words *words)
{
    int64_t n = first_number(words, 1);
    struct store_audit audit;
    struct store_units units;

    if (is(verb, "product") || is(verb, "left")) {
        struct store_product product =
            store_rig_product(&play.rig, number_or(words, "of", 1));
        const char *held = value(words, "held");

        EXPECT_FIELDS(words, &product, product_fields, " of held ");
        if (is(verb, "product"))
            return;
        expect("left", words->at[1], product.stock);
        audit = store_rig_audit(&play.rig);
        assert_true(audit.balanced);
        assert_ok(store_units_left(play.rig.reader, &units, NULL));
        if (held)
            expect("held", held, audit.held == units.held ? audit.held : -1);
    } else if (is(verb, "audit")) {
        audit = store_rig_audit(&play.rig);
        EXPECT_FIELDS(words, &audit, audit_fields, "");
        assert_true(words->n > 1 || audit.balanced);
    } else if (is(verb, "units")) {
        assert_ok(store_units_left(play.rig.reader, &units, NULL));
        EXPECT_FIELDS(words, &units, units_fields, "");
    } else if (is(verb, "expired")) {
        while (store_expired(play.rig.store) < (uint64_t)n)
            usleep(2000);
        assert_int_equal(store_expired(play.rig.store), n);
    } else if (is(verb, "fails")) {
        while (atomic_load(&play.failures_n) < n)
            usleep(2000);
    } else if (is(verb, "known") || is(verb, "unknown"))
        assert_int_equal(store_knows_sold_out(play.rig.store, 1, n),
                         is(verb, "known"));
    else
        wrong("there is no such verb", verb);
}

static void on_failure(void *ctx, enum store_status status,
                       const struct store_error *error)
{
    (void)atomic_fetch_add(&play.failures_n, 1);
}

static void open_it(const struct words *words)
{
    const struct store_options options = {
        .shared = has(words, "shared"),
        .busy_ms = (unsigned)number_or(words, "busy", 0),
        .on_failure = on_failure};

    store_rig_open(&play.rig, options);
    play.fed = has(words, "fed");
    if (play.fed)
        store_rig_feed(&play.rig);
}

static void set_failing(const char *step)
{
    static char failing[24];

    pthread_mutex_lock(&play.rig.mutex);
    (void)snprintf(failing, sizeof(failing), "%s", step ? step : "");
    play.rig.steps.failing = step ? failing : NULL;
    pthread_mutex_unlock(&play.rig.mutex);
}

static void do_else(const struct words *words, const struct words *then)
{
    const char *verb = words->at[0];
    enum store_status status = ask_store(words, then);

    if (status != STORE_STATUS_N)
        expect_status(then, status);
    else if (is(verb, "failing"))
        set_failing(words->at[1]);
    else if (is(verb, "mend"))
        set_failing(NULL);
    else if (is(verb, "clock"))
        store_story_clock(first_number(words, 1));
    else if (is(verb, "sleep"))
        usleep((unsigned)first_number(words, 1) * 1000);
    else if (is(verb, "free")) {
        sqlite3_close(play.busy);
        play.busy = NULL;
    } else
        look(verb, words);
}

/* What is about a text as it stands; false: it is another one. */
static bool do_text(const char *verb, const char *text)
{
    const char *begin = strncmp(text, "BEGIN", 5) == 0 ? "" : "BEGIN;";

    if (is(verb, "sqlite") || is(verb, "mysql")) {
        if (store_rig_on_mysql(&play.rig) != is(verb, "mysql"))
            skip();
    } else if (is(verb, "sql"))
        store_rig_sql(&play.rig, text);
    else if (is(verb, "busy"))
        play.busy = store_rig_connect(&play.rig, text_of("%s%s", begin, text));
    else if (is(verb, "segments"))
        store_rig_expect(&play.rig, text);
    else
        return false;
    return true;
}

static void do_statement(const char *statement)
{
    size_t len = strcspn(statement, " ");
    char text[TEXT_BYTES_MAX];
    struct words words, then;

    play.statement = statement;
    if (do_text(text_of("%.*s", (int)len, statement),
                statement + len + (statement[len] == ' ')))
        return;
    (void)snprintf(text, sizeof(text), "%s", statement);
    then = words_of(cut_at_arrow(text));
    words = words_of(text);
    if (!play.rig.store || is(words.at[0], "open"))
        open_it(&words);
    if (len == 1)
        do_order(&words, &then);
    else if (!is(words.at[0], "open"))
        do_else(&words, &then);
}

/* ---- tests ------------------------------------------------------------------ */

static int set_up(void **state)
{
    memset(&play, 0, sizeof(play));
    play.story = *state;
    if (store_story_clock)
        store_story_clock(0);
    store_rig_begin(&play.rig);
    return 0;
}

static int tear_down(NO_STATE)
{
    sqlite3_close(play.busy);
    store_rig_end(&play.rig);
    return 0;
}

static void play_it(NO_STATE)
{
    char text[2000], *rest = NULL;

    assert_true(strlen(play.story->story) < sizeof(text));
    (void)snprintf(text, sizeof(text), "%s", play.story->story);
    for (char *each = strtok_r(text, ";", &rest); each != NULL;
         each = strtok_r(NULL, ";", &rest)) {
        each += strspn(each, " ");
        if (each[0] != '\0')
            do_statement(each);
    }
}

void store_story_add(const struct store_story stories[], size_t n, int line)
{
    for (size_t i = 0; i < n; i++)
        unit_test_add(&(struct CMUnitTest){stories[i].what, play_it, set_up,
                                           tear_down, (void *)&stories[i]},
                      line);
}
