# libdlock by itself: the shared library, and where things go.
#
#   make install-dlock PREFIX=/usr/local DESTDIR=      uninstall-dlock, the same
#
# Included by the Makefile, whose `install` installs the service as well: see
# server/deploy/install.mk. Here nothing of it is built or installed.

PREFIX     ?= /usr/local
DESTDIR    ?=
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man

# The first number changes when programs have to be built anew.
DLOCK_VERSION := 0.1.0
DLOCK_SONAME  := libdlock.so.$(firstword $(subst ., ,$(DLOCK_VERSION)))
DLOCK_SHARED  := libdlock.so.$(DLOCK_VERSION)

PUBLIC_H := lock/dlock.h lock/dlock_async.h lock/dlock_deadlock.h lock/dlock_inspect.h \
            lock/dlock_step.h lock/dlock_url.h lock/dlock_values.h lock/dlock_quorum.h \
            lock/dlock_sentinel.h lock/dlock_cluster.h \
            $(if $(HAVE_TLS),lock/dlock_tls.h) \
            $(if $(HAVE_SQL),lock/dlock_sql.h) \
            $(if $(HAVE_ZK),lock/dlock_zk.h)
PIC_OBJ  := $(patsubst %.c,$(B)/pic/%.o,$(LOCK_SRC))
LOCK_LIB := -lhiredis

# Those on several servers, over SQL and ZooKeeper, sentinels, clusters and TLS use what libdlock does not show:
# they come as archives, and a program that has one has libdlock as an archive as well.
MORE_A   := $(QUORUM_A) $(SENTINEL_A) $(CLUSTER_A) $(TLS_A) $(SQL_A) $(ZK_A)
MORE_PC  := dlock-quorum.pc dlock-sentinel.pc dlock-cluster.pc $(if $(HAVE_TLS),dlock-tls.pc) $(if $(HAVE_SQL),dlock-sql.pc) $(if $(HAVE_ZK),dlock-zk.pc)

.PHONY: install-dlock uninstall-dlock

$(B)/pic/%.o: %.c $(GEN)
	@mkdir -p $(@D)
	@echo "  CC    $< (shared)"
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fPIC -MMD -MP -c -o $@ $<

$(B)/$(DLOCK_SHARED): $(PIC_OBJ) lock/dlock.map
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(DLOCK_SONAME) \
	    -Wl,--version-script=lock/dlock.map -Wl,-z,defs -o $@ \
	    $(PIC_OBJ) $(LOCK_LIB)

# A .pc file: what it is made of, the client library, where it goes.
make_pc = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
            -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(DLOCK_VERSION)|' \
            -e 's|@LIBS@|$(strip $(2))|' lock/$(1).pc.in \
            >$(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc && \
          chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc

# Headers name each other from the top of this tree, and side by side there.
install-dlock: $(B)/libdlock.a $(MORE_A) $(B)/$(DLOCK_SHARED)
	install -d $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(LIBDIR)/pkgconfig \
	    $(DESTDIR)$(MANDIR)/man3
	for header in $(PUBLIC_H); do \
	    sed 's|#include "lock/|#include "|' $$header \
	        >$(DESTDIR)$(INCLUDEDIR)/$${header##*/} || exit 1; \
	    chmod 644 $(DESTDIR)$(INCLUDEDIR)/$${header##*/} || exit 1; \
	done
	install -m 644 $(B)/libdlock.a $(MORE_A) $(DESTDIR)$(LIBDIR)
	install -m 755 $(B)/$(DLOCK_SHARED) $(DESTDIR)$(LIBDIR)/$(DLOCK_SHARED)
	ln -sf $(DLOCK_SHARED) $(DESTDIR)$(LIBDIR)/$(DLOCK_SONAME)
	ln -sf $(DLOCK_SONAME) $(DESTDIR)$(LIBDIR)/libdlock.so
	$(call make_pc,dlock,$(LOCK_LIB))
	$(call make_pc,dlock-quorum,$(LOCK_LIB))
	$(call make_pc,dlock-sentinel,$(LOCK_LIB))
	$(call make_pc,dlock-cluster,$(LOCK_LIB))
	$(if $(HAVE_TLS),$(call make_pc,dlock-tls,$(LOCK_LIB) $(TLS_LIB)))
	$(if $(HAVE_SQL),$(call make_pc,dlock-sql,$(LOCK_LIB) $(SQL_LIB)))
	$(if $(HAVE_ZK),$(call make_pc,dlock-zk,$(LOCK_LIB) $(ZK_LIB)))
	install -m 644 lock/dlock.3 $(DESTDIR)$(MANDIR)/man3/dlock.3

uninstall-dlock:
	rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/,$(notdir $(PUBLIC_H))) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/,libdlock.a libdlock.so \
	        $(DLOCK_SONAME) $(DLOCK_SHARED) pkgconfig/dlock.pc) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/,$(notdir $(MORE_A)) \
	        $(addprefix pkgconfig/,$(MORE_PC))) \
	    $(DESTDIR)$(MANDIR)/man3/dlock.3
