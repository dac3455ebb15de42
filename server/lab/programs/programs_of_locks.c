/*
 * Programs that do something with locks alone, or sell under one in a wrong way:
 * what callers of lock libraries get wrong, however good the lock is.
 */
#include "server/lab/programs/program.h"

#include <string.h>

#include "lock/dlock_textbook.h"

/* A step that changes nothing: without one, nobody else could come in meanwhile. */
static enum store_status look_at_stock(struct program_actor *self)
{
    struct store_order record = {.product_id = self->role.product,
                                 .user_id = self->role.user,
                                 .quantity = self->role.quantity};
    int64_t stock;

    return store_naive_select(self->worker.reader, &record, &stock, NULL);
}

static void take_and_give(struct program_actor *self, int64_t product)
{
    struct lock_task lock;

    if (program_take(self, product, &lock) != DLOCK_OK)
        return;
    turns_note("has all that it wants");
    (void)look_at_stock(self);
    (void)program_give(self, &lock);
}

void program_lock_once(struct program_actor *self)
{
    take_and_give(self, self->role.product);
}

/* A method that holds the lock calls one that takes it as well, and goes on. */
void program_lock_nested(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    take_and_give(self, self->role.product);
    (void)look_at_stock(self);
    (void)program_give(self, &lock);
}

void program_lock_both(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    take_and_give(self, self->role.other);
    (void)program_give(self, &lock);
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
    struct store_fence fence = lock_fence(self->worker.app, &lock->grant);
    struct store *store = self->worker.app->store;
    enum store_status status;
    int64_t stock = 0;

    status = store_naive_select(self->worker.reader, &record, &stock, NULL);
    if (status == STORE_OK)
        status = record.status;
    if (status == STORE_OK)
        status = store_naive_update(store, record.product_id, record.segment,
                                    stock - record.quantity, &fence, NULL);
    if (status == STORE_OK)
        (void)store_naive_insert(store, &record, &fence, NULL);
}

/* The worker is gone, and its process goes on. */
void program_lock_forgets(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) == DLOCK_OK)
        turns_note("the worker ends, and does not release it");
}

/* The method that is called orders. */
void program_order_nested(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    program_order(self);
    (void)look_at_stock(self);
    (void)program_give(self, &lock);
}

/* The same; but the method that calls has its look at the stock before. */
void program_order_checked(struct program_actor *self)
{
    struct lock_task lock;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    if (look_at_stock(self) == STORE_OK)
        program_order(self);
    (void)program_give(self, &lock);
}

/* Under the lock, another one comes and goes before the order. */
void program_order_beside(struct program_actor *self)
{
    struct lock_task lock, beside;

    if (program_take(self, self->role.product, &lock) != DLOCK_OK)
        return;
    if (program_take(self, self->role.other, &beside) == DLOCK_OK)
        (void)program_give(self, &beside);
    order_under(self, &lock);
    (void)program_give(self, &lock);
}

/* With a fencing token, which the store knows before anything is read. What serve
 * does with `fenced`, for any lock that has tokens. */
void program_order_fenced(struct program_actor *self)
{
    struct dlock_terms terms = {.wait_ms = lock_wait_ms(self->worker.app),
                                .fenced = true};
    struct lock_task lock = {.kind = LOCK_TAKE};
    struct store_fence fence;

    lock_name(self->role.product, 0, lock.name);
    if (store_fence_floor(self->worker.reader, self->role.product, lock.name,
                          &terms.fence_floor, NULL) != STORE_OK ||
        dlock_acquire(self->worker.session, lock.name, &terms, &lock.grant,
                      NULL) != DLOCK_OK)
        return;
    fence = lock_fence(self->worker.app, &lock.grant);
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
    if (dlock_extend(self->worker.session, &lock.grant, EXTEND_MS, NULL) !=
            DLOCK_LOST &&
        !turns_ending())
        compare_with_server(self, &lock);
    (void)program_give(self, &lock);
}
