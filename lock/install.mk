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

PUBLIC_H := $(wildcard lock/*.h)

# Each part is a shared library that needs libdlock, and an archive that does: so there is
# one copy of what libdlock keeps for the process. The soname has the first number.
LIBRARIES := dlock $(DLOCK_PARTS:%=dlock-%)
SHARED    := $(LIBRARIES:%=$(B)/lib%.so.$(DLOCK_VERSION))
soname     = lib$(1).so.$(firstword $(subst ., ,$(DLOCK_VERSION)))

# The client library that one needs; for archives, what that one needs as well.
needs-dlock         := -lhiredis
needs-dlock-sql     := $(SQL_LIB)
needs-dlock-zk      := $(ZK_LIB)
needs-dlock-tls     := $(TLS_LIB)
SQL_LIB_STATIC      := $(if $(HAVE_SQL),$(shell pkg-config --static --libs libmariadb))

about-dlock          := Distributed locks over Redis
about-dlock-quorum   := Distributed locks on several Redis servers
about-dlock-tls      := TLS to Redis, for libdlock
about-dlock-sql      := Distributed locks over a SQL database
about-dlock-zk       := Distributed locks over ZooKeeper

# Paths stand unquoted below, and in sed's commands.
INSTALL_PATHS = $(DESTDIR)$(PREFIX)$(LIBDIR)$(INCLUDEDIR)$(MANDIR)
.PHONY: install-dlock uninstall-dlock plain-paths
plain-paths:
	@! printf %s '$(INSTALL_PATHS)' | grep -q '[][[:space:]"&|;<>()$$\\*?`#]' || \
	    { echo 'a path to install to has a blank in it, or one of "&|;<>()[]$$\*?`#' >&2; exit 1; }

$(B)/pic/%.o: %.c $(GEN)
	@mkdir -p $(@D)
	@echo "  CC    $< (shared)"
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fPIC -MMD -MP -c -o $@ $<

# A part shows what a program registers.
$(B)/gen/lock/dlock-%.map:
	@mkdir -p $(@D)
	@echo '{ global: dlock_$*$(if $(filter sql zk quorum,$*),_strategies); local: *; };' >$@

pic_of = $(patsubst %.c,$(B)/pic/%.o,$(1))
$(B)/libdlock.so.$(DLOCK_VERSION): $(call pic_of,$(LOCK_SRC)) lock/dlock.map
$(foreach part,$(DLOCK_PARTS),$(eval $(B)/libdlock-$(part).so.$(DLOCK_VERSION): \
    $(call pic_of,$(call part_src,$(part))) $(B)/libdlock.so.$(DLOCK_VERSION) $(B)/gen/lock/dlock-$(part).map))
# Threads may outlive the clients (dlock_url.h), and dlclose(3): hence nodelete.
$(SHARED): $(B)/lib%.so.$(DLOCK_VERSION):
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(call soname,$*) -Wl,-z,defs,-z,nodelete -o $@ \
	    $(patsubst %.map,-Wl$(comma)--version-script=%.map,$^) $(needs-$*)

# A .pc file: of which library, what it requires, the client library.
make_pc = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
            -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(DLOCK_VERSION)|' \
            -e 's|@NAME@|$(1)|' -e 's|@ABOUT@|$(about-$(1))|' \
            -e 's|@REQUIRES@|$(if $(filter-out dlock,$(1)),dlock = $(DLOCK_VERSION))|' \
            -e 's|@NEEDS@|$(strip $(if $(filter dlock-sql,$(1)),$(SQL_LIB_STATIC),$(needs-$(1))))|' \
            lock/dlock.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc && \
          chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc

# Headers name each other from the top of this tree, and side by side there.
install-dlock: plain-paths $(B)/libdlock.a $(PARTS_A) $(SHARED)
	install -d $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(LIBDIR)/pkgconfig \
	    $(DESTDIR)$(MANDIR)/man3
	for header in $(PUBLIC_H); do \
	    sed 's|#include "lock/|#include "|' $$header \
	        >$(DESTDIR)$(INCLUDEDIR)/$${header##*/} || exit 1; \
	    chmod 644 $(DESTDIR)$(INCLUDEDIR)/$${header##*/} || exit 1; \
	done
	install -m 644 $(B)/libdlock.a $(PARTS_A) $(DESTDIR)$(LIBDIR)
	install -m 755 $(SHARED) $(DESTDIR)$(LIBDIR)
	$(foreach name,$(LIBRARIES), \
	    ln -sf lib$(name).so.$(DLOCK_VERSION) $(DESTDIR)$(LIBDIR)/$(call soname,$(name)) && \
	    ln -sf $(call soname,$(name)) $(DESTDIR)$(LIBDIR)/lib$(name).so && \
	    $(call make_pc,$(name)) &&) true
	install -m 644 lock/dlock.3 $(DESTDIR)$(MANDIR)/man3/dlock.3

uninstall-dlock: plain-paths
	rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/,$(notdir $(PUBLIC_H))) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/,$(notdir $(SHARED)) $(foreach name,$(LIBRARIES), \
	        lib$(name).a lib$(name).so $(call soname,$(name)) pkgconfig/$(name).pc)) \
	    $(DESTDIR)$(MANDIR)/man3/dlock.3
