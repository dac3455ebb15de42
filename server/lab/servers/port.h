/* A port for a redis-server that needs one: a replica follows by TCP alone. */
#ifndef PORT_H
#define PORT_H

/* A port of the loopback that nobody has just now; 0: there is none. Somebody else may
 * be faster: so try several. */
unsigned port_free(void);

#endif
