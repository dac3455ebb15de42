/*
 * Requests that have to wait, on their way to those they wait for; the other
 * half of what http.h promises to handlers. For loop.c.
 */
#ifndef PARK_H
#define PARK_H

struct http;
struct ticket;

/* Hands the orders of a pass to the desk, if the door is still open. */
void park_orders(struct http *http, struct ticket *list);

#endif
