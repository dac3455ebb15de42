/*
 * Turns: the threads of one actor run one at a time, in a fixed order, and stop
 * where the stage wants them to stop. So what an actor does between two moves
 * depends on nothing but the moves.
 *
 * The actor's process is linked so that whatever can block a thread, or tells it
 * the time, comes here first (wraps.c). A thread that would block says what for,
 * and the next one that can go on does. When none can, the turn goes back to the
 * stage, which says how it goes on. Timed waits never end by themselves.
 */
#ifndef STAGE_TURNS_H
#define STAGE_TURNS_H

#include "server/lab/world/page.h"

/* The linker has put a function of ours in front of F (--wrap, see the Makefile): a call
 * of F comes to __wrap_F, and __real_F is F itself. Declares both, as F is declared. */
#define WRAPPED(f) __typeof__(f) __real_##f, __wrap_##f

/* Whether this process has actors. In others all calls are the C library's. */
extern bool turns_on;

/* The calling thread becomes the first of a process, and runs its first actor. STOP_FD
 * is made readable when all programs are to be let go of. */
void turns_begin(struct board *board, struct page *page, int stop_fd);

/* The calling thread runs the programs of actor LANE, from 0, from now on. */
void turns_lane(unsigned lane);

/* Gives the turn back, in PHASE, until the stage says PAGE_BEGIN, or to the first
 * actor PAGE_END. */
void turns_park(enum page_phase phase);

/* The first actor waits here after PAGE_END, until all others have let go of theirs. */
void turns_await_lanes(void);

/* Whether the schedule is over, and the program has to return: from then on steps
 * and waits end at once, and nothing is sent. */
bool turns_ending(void);

/* The N WORDS of a command into *STEP, and how people write it; the PARTS_N behind the first
 * are one word. */
void turns_put_words(struct page_thread *step, const char *const words[],
                     size_t n, size_t parts_n);

/* Before a step, which is SHOWN: blocks until the stage lets it go, and returns what is to
 * become of it. */
enum page_verdict turns_step(const struct page_thread *shown);

/* After a step for server NODE, from 0 (0 for SQL): notes its reply, and returns the
 * verdict that it was let go with. */
enum page_verdict turns_stepped(unsigned node, const char *reply);

/* A step that came along with the one under way: nobody lets it go, and its record is
 * that of any other. */
void turns_came_along(const struct stage_step *step, const char *reply);

/* A command that is no step for the stage is sent at once: it BEGINS, or is over. */
void turns_step_aside(bool begins);

/* How many servers there are; set before any step. */
extern unsigned turns_nodes_n;

/* Replaces the reply of the step that was just done, if that was SQL. */
void turns_amend(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds a line about something that was no step. */
void turns_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The calling thread's. */
struct page_lane *turns_own_lane(void);

/* The lane of the actor whose hold has this OWNER; NULL: there is none. */
struct page_lane *turns_lane_of(const char *owner);

/* Its place in page->threads. */
unsigned turns_own_thread_n(void);

/* Whether the calling thread runs a program; else it is a helper of the process. */
bool turns_is_main(void);

/* The process's one transaction begins, or is over. */
void turns_transaction(bool is_open);

/* The clock; page->heard has each change of it that somebody has read. */
uint64_t turns_now_us(void);

/* Notes what has come into the process from outside: what it does next depends on
 * nothing else. Orders, replies and the clock are noted already; other reads of what
 * all share (the database, who lives) must be. */
void turns_hear(const void *bytes, size_t len);

#endif
