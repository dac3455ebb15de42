/*
 * Programs that do something with locks alone, or sell under one in a wrong way:
 * what callers of lock libraries get wrong, however good the lock is.
 */
#include "server/lab/programs/program.h"

#include <string.h>

#include "lock/textbook/textbook.h"

/* A step that changes nothing: without one, nobody else could come in meanwhile. */
static void look_at_stock(struct program_actor *self)
{
    struct store_order record = {.product_id = self->role.product,
                                 .user_id = self->role.user,
                                 .quantity = self->role.quantity};
    int64_t stock;

    (void)store_naive_select(self->worker.reader, &record, &stock, NULL);
}

/* Each lesson's release is where its text says that callers have it: with setnx it is the
 * last line of the work, which an error does not reach; with all others in a finally. */
void program_lock_throws(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    turns_note("an error under the lock");
    if (dlock_textbook_has_finally(self->scene->lock))
        (void)program_give(self, &lock);
}

/* The textbook's order, under a lock that was taken before; or was not. */
static void order_under(struct program_actor *self,
                        const struct lock_task *lock)
{
    struct store_order record = {.product_id = self->role.product,
                                 .user_id = self->role.user,
                                 .quantity = self->role.quantity};
    /* The fence is that of the grant: without a token it compares nothing. */
    struct store_fence fence = lock_fence(self->worker.app, &lock->grant);
    struct store *store = self->worker.app->store;
    enum store_status status;
    int64_t stock = 0;

    status = store_naive_select(self->worker.reader, &record, &stock, NULL);
    if (status == STORE_OK)
        /* The read may say that the order cannot be: then nothing is written. */
        status = record.status;
    /* The new stock is computed here: a sale since the read is overwritten. */
    if (status == STORE_OK)
        status = store_naive_update(store, record.product_id, record.segment,
                                    stock - record.quantity, &fence, NULL);
    if (status == STORE_OK)
        (void)store_naive_insert(store, &record, &fence, NULL);
}

/* The end of what is done under the lock that AT takes: its ')', or the last letter. */
static const char *end_of(const char *at)
{
    /* A bracket within is left out with what is around it. */
    for (int depth = 1; depth > 0 && at[1] != '\0';) {
        at++;
        depth += *at == '(' || *at == '[';
        depth -= *at == ')';
    }
    return at;
}

/* Does what the letters of its row in programs.txt say. */
void program_under_locks(struct program_actor *self)
{
    const char *deed = program_find(self->role.program)->deeds;
    struct lock_task held[2];
    unsigned n = 0;

    for (; *deed && !turns_ending(); deed++) {
        int64_t product = *deed == '[' ? self->role.other : self->role.product;

        switch (*deed) {
        case '(':
        case '[':
            if (program_take(self, product, &held[n]) == DLOCK_OK)
                n++;
            else
                /* The lock was not had: all that would be done under it is left out. */
                deed = end_of(deed);
            break;
        /* The lock that was taken last is given back first. */
        case ')':
            (void)program_give(self, &held[--n]);
            break;
        case '?':
            look_at_stock(self);
            break;
        case 'o':
            program_order(self);
            break;
        case 'n':
            order_under(self, &held[n - 1]);
            break;
        default:
            turns_note("has all that it wants");
        }
    }
    /* Locks that are left have no brackets behind them in the row: the worker ends
     * with them. */
    if (n > 0)
        turns_note("the worker ends, and does not release it");
}

/* With a fencing token, which the store knows before anything is read. What serve
 * does with `fenced`, for any lock that has tokens. */
void program_order_fenced(struct program_actor *self)
{
    struct dlock_terms terms = {.wait_ms = lock_wait_ms(self->worker.app),
                                .fenced = true};
    struct lock_task lock = {.kind = LOCK_TAKE};
    struct store_fence fence;

    /* The floor comes before the lock, as the service has it: its token must be above
     * what the data knows. */
    lock_name(self->role.product, 0, lock.name);
    if (store_fence_floor(self->worker.reader, self->role.product, lock.name,
                          &terms.fence_floor, NULL) != STORE_OK ||
        dlock_acquire(self->worker.session, lock.name, &terms, &lock.grant,
                      NULL) != DLOCK_OK)
        return;
    fence = lock_fence(self->worker.app, &lock.grant);
    /* The token is announced before the read: from then on a late holder's write
     * is refused. */
    if (store_stamp(self->worker.app->store, &fence, NULL) == STORE_OK)
        order_under(self, &lock);
    (void)dlock_release(self->worker.session, &lock.grant, NULL);
}

/* Nobody looks at what acquire has answered. */
void program_order_ignoring(struct program_actor *self)
{
    struct lock_task lock;

    (void)program_take(self, self->role.product, &lock);
    order_under(self, &lock);
    /* Only what was had is given back: the wrong is in the order above. */
    if (lock.status == DLOCK_OK)
        (void)program_give(self, &lock);
}

enum { EXTEND_MS = 5000 }; /* less than what a watchdog renews to */

/* The library counts a lease from before its command was sent, so it must not be
 * sure of a lock that the server says is not there. */
static void compare_with_server(struct program_actor *self,
                                const struct lock_task *lock)
{
    struct dlock_session *session = self->worker.session;
    struct dlock_holder holder = {.held = false};

    if (dlock_inspect(session, lock->name, &holder, NULL) != DLOCK_OK ||
        turns_ending())
        return;
    if (holder.held && strcmp(holder.owner, dlock_session_owner(session)) == 0)
        return;
    if (dlock_remaining_ms(session, &lock->grant) > 0)
        program_is_wrong(
            "somebody was sure of a lock that the server did not know");
}

/* The lease is made shorter while a watchdog renews it. */
void program_lock_extends(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    /* A loss that was told is no claim that could be compared. */
    if (dlock_extend(self->worker.session, &lock.grant, EXTEND_MS, NULL) !=
            DLOCK_LOST &&
        !turns_ending())
        compare_with_server(self, &lock);
    (void)program_give(self, &lock);
}
