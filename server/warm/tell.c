/*
 * Telling the keys what was sold, and hearing from them what is left.
 *
 * What is sold meanwhile stays in the copy until the next time. An answer that
 * was lost leaves it open whether the key knows: then it is counted anew.
 */
#include "server/warm/warmer.h"

#include "server/clock.h"

#define TELL_LOOK_MS   50   /* at the keys of products that are asked for */
#define TELL_ACTIVE_MS 1000 /* after the last order */
#define TELL_LAST_MS   1000 /* after the end was asked for */

/* ---- answers -------------------------------------------------------------- */

/* Under the mutex. */
static void hear(struct copy_product *product,
                 const struct keys_command *command)
{
    struct copy_chores *chores = &product->chores;

    switch (command->answer) {
    case KEYS_DONE:
        copy_hear(product, (size_t)command->segment, command->units,
                  command->number);
        break;
    case KEYS_STALE:
        chores->adopt = true;
        break;
    case KEYS_MISSING:
        chores->doubt = true;
        break;
    case KEYS_UNKNOWN:
        chores->write |= command->units > 0;
        break;
    case KEYS_UNSENT:
        chores->tell |= command->units > 0;
        break;
    case KEYS_OTHERS:
        break; /* no answer to this question */
    }
}

/*
 * A key is missing. If another instance has counted anew, with fewer segments,
 * it has taken the key away, and its count is taken over. Else Redis has lost
 * it: nobody knows what else.
 */
static void clear_up(struct warm *warm, const struct keys_command *command)
{
    struct copy_product *product;
    bool lost;

    if (command->answer != KEYS_MISSING)
        return;
    product = copy_find(&warm->copy, command->product_id);
    if (!product || !product->chores.doubt)
        return; /* of an older count, or cleared up for another key */
    lost = !recount_adopt(warm, product->id);
    pthread_mutex_lock(&warm->mutex);
    product->chores.doubt = false;
    product->cold |= lost;
    product->chores.renew |= lost;
    pthread_mutex_unlock(&warm->mutex);
    if (lost)
        sweep_soon(warm);
}

/* A product has one segment, and its keys are of a time when it had more, or of a
 * later epoch: whoever cut it down has not lived to count anew, or Redis knows of
 * a time that the database does not, being a copy of long ago. */
static void clear_away(struct warm *warm, const struct keys_command *command)
{
    struct store_error error = {""};
    struct store_cells cells;
    bool written;

    if (command->verb == KEYS_LOAD &&
        (command->answer == KEYS_OTHERS || command->answer == KEYS_STALE))
        (void)recount_renew(warm, command->product_id, &cells, &written,
                            &error);
}

/* Those of products that are not held were for people. */
void tell_now(struct warm *warm)
{
    size_t n = warm->batch_n;

    keys_run(warm->keys, warm->batch, warm->batch_n);
    pthread_mutex_lock(&warm->mutex);
    for (size_t i = 0; i < warm->batch_n; i++) {
        const struct keys_command *command = &warm->batch[i];
        struct copy_product *product =
            copy_find(&warm->copy, command->product_id);

        if (command->verb == KEYS_TAKE && product->epoch == command->epoch)
            hear(product, command);
    }
    pthread_mutex_unlock(&warm->mutex);
    warm->batch_n = 0;
    for (size_t i = 0; i < n; i++) {
        clear_away(warm, &warm->batch[i]);
        clear_up(warm, &warm->batch[i]);
    }
}

void tell_later(struct warm *warm, const struct keys_command *command)
{
    if (warm->batch_n == WARMER_BATCH_MAX)
        tell_now(warm);
    warm->batch[warm->batch_n++] = *command;
}

void tell_single(struct warm *warm, int64_t product_id, int64_t epoch,
                 int64_t units)
{
    const struct keys_command command = {.verb = KEYS_LOAD,
                                         .product_id = product_id,
                                         .epoch = epoch,
                                         .units = units};

    tell_later(warm, &command);
}

/* ---- questions ------------------------------------------------------------ */

/* Whether somebody has asked for it of late. Under the mutex. */
static bool is_active(struct copy_product *product, uint64_t now_ms)
{
    if (product->asked_for)
        product->asked_ms = now_ms;
    product->asked_for = false;
    return now_ms < product->asked_ms + TELL_ACTIVE_MS;
}

/* Takes the chore of telling; *look: all keys, whether they have sold or not.
 * With one segment, nobody says what it sells. */
static bool take_chore(struct copy_product *product, uint64_t now_ms,
                       bool active, bool *look)
{
    struct copy_chores *chores = &product->chores;
    bool due;

    *look =
        chores->look || (active && now_ms >= product->looked_ms + TELL_LOOK_MS);
    due = (*look || chores->tell) && product->segments > 1 && !product->cold &&
          !chores->write;
    if (!due)
        return false;
    if (*look)
        product->looked_ms = now_ms;
    chores->look = chores->tell = false;
    return true;
}

/* What its segments have sold, as commands; under the mutex. */
static size_t commands_of(struct copy_product *product, bool look,
                          struct keys_command commands[STORE_SEGMENTS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < product->n; i++) {
        if (look || product->cells[i].sold > 0)
            commands[n++] = (struct keys_command){
                .verb = KEYS_TAKE,
                .product_id = product->id,
                .segment = (int64_t)i,
                .epoch = product->epoch,
                .units = product->cells[i].sold,
            };
    }
    return n;
}

/* The end does not wait for a slow Redis. Under the mutex. */
static bool is_late(const struct warm *warm)
{
    return warm->closing && clock_ms() >= warm->closing_ms + TELL_LAST_MS;
}

static bool tell_product(struct warm *warm, struct copy_product *product,
                         uint64_t now_ms)
{
    struct keys_command commands[STORE_SEGMENTS_MAX];
    bool active, look;
    size_t n = 0;

    pthread_mutex_lock(&warm->mutex);
    active = is_active(product, now_ms);
    if (!is_late(warm) && take_chore(product, now_ms, active, &look))
        n = commands_of(product, look && !warm->closing, commands);
    pthread_mutex_unlock(&warm->mutex);
    for (size_t i = 0; i < n; i++)
        tell_later(warm, &commands[i]);
    return active;
}

bool tell_all(struct warm *warm, uint64_t now_ms)
{
    bool active = false;

    for (size_t i = 0; i < warm->copy.n; i++)
        active |= tell_product(warm, warm->copy.slots[i].product, now_ms);
    tell_now(warm);
    return active;
}
