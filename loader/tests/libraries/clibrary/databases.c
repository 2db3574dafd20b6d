/* Uses of the C library's functions that keep something between calls. Each writes down what it got. Where `meet` is called,
   programs that run a case at once wait for each other: what one has set, the others have then set too. */
#define _GNU_SOURCE
#include <aliases.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fstab.h>
#include <getopt.h>
#include <grp.h>
#include <gshadow.h>
#include <langinfo.h>
#include <libintl.h>
#include <locale.h>
#include <math.h>
#include <mntent.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <pwd.h>
#include <regex.h>
#include <rpc/netdb.h>
#include <search.h>
#include <shadow.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ttyent.h>
#include <uchar.h>
#include <unistd.h>
#include <utmp.h>
#include <utmpx.h>
#include <wchar.h>

#ifdef __cplusplus
#error C
#endif
extern char *re_comp(const char *);
extern int re_exec(const char *);
extern char *inet_nsap_ntoa(int, const unsigned char *, char *);

struct text { char *at, *end; };
static void (*meet)(void);

static void say(struct text *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out->at, out->end - out->at, format, arguments);
    va_end(arguments);
    if (length > 0)
        out->at += length < out->end - out->at ? length : out->end - out->at - 1;
}
static const char *or_none(const char *text) { return text ? text : "none"; }
static void say_all(struct text *out, char **texts)
{
    for (; texts && *texts; texts++)
        say(out, " %s", *texts);
    say(out, "\n");
}

/* Lists: the first entries, one at a time, as many more as the program's number says, and the number of all. */
#define LIST(name, type, set, get, end, print)            \
    static void name(int me, struct text *out)            \
    {                                                     \
        set;                                              \
        for (int i = 0; i < 4 + me; i++) {                \
            type *e = get;                                \
            if (i < 4)                                    \
                meet();                                   \
            if (e)                                        \
                print;                                    \
        }                                                 \
        int rest = 0;                                     \
        while (get)                                       \
            rest++;                                       \
        say(out, "%d more\n", rest);                      \
        end;                                              \
    }
#define LIST_R(name, type, set, get, end, print)          \
    static void name(int me, struct text *out)            \
    {                                                     \
        type entry, *e = NULL;                            \
        char room[4096];                                  \
        int error = 0;                                    \
        (void)error;                                      \
        set;                                              \
        for (int i = 0; i < 4 + me; i++) {                \
            size_t size = i ? sizeof room : 1;            \
            int few = get;                                \
            size = sizeof room;                           \
            int status = get;                             \
            if (i < 4)                                    \
                meet();                                   \
            if (!status && e)                             \
                print;                                    \
            say(out, "%d %d\n", few, status);             \
        }                                                 \
        end;                                              \
    }
#define GROUP say(out, "%s %d", e->gr_name, e->gr_gid), say_all(out, e->gr_mem)
#define USER say(out, "%s %d %s %s\n", e->pw_name, e->pw_uid, e->pw_dir, e->pw_shell)
#undef SHADOW
#define SHADOW say(out, "%s %ld\n", e->sp_namp, e->sp_max)
#define SHADOW_GROUP say(out, "%s", e->sg_namp), say_all(out, e->sg_mem)
#define SERVICE say(out, "%s %d %s", e->s_name, e->s_port, e->s_proto), say_all(out, e->s_aliases)
#define PROTOCOL say(out, "%s %d", e->p_name, e->p_proto), say_all(out, e->p_aliases)
#define NETWORK say(out, "%s %u", e->n_name, e->n_net), say_all(out, e->n_aliases)
#define HOST say(out, "%s %d %02x", e->h_name, e->h_length, e->h_addr_list[0][e->h_length - 1] & 255), say_all(out, e->h_aliases)
#define PROGRAM say(out, "%s %d", e->r_name, e->r_number), say_all(out, e->r_aliases)
#define ALIAS say(out, "%s %zu\n", e->alias_name, e->alias_members_len)
LIST(groups, struct group, setgrent(), getgrent(), endgrent(), GROUP)
LIST(users, struct passwd, setpwent(), getpwent(), endpwent(), USER)
LIST(shadows, struct spwd, setspent(), getspent(), endspent(), SHADOW)
LIST(shadow_groups, struct sgrp, setsgent(), getsgent(), endsgent(), SHADOW_GROUP)
LIST(services, struct servent, setservent(1), getservent(), endservent(), SERVICE)
LIST(protocols, struct protoent, setprotoent(1), getprotoent(), endprotoent(), PROTOCOL)
LIST(networks, struct netent, setnetent(1), getnetent(), endnetent(), NETWORK)
LIST(hosts, struct hostent, sethostent(1), gethostent(), endhostent(), HOST)
LIST(programs, struct rpcent, setrpcent(1), getrpcent(), endrpcent(), PROGRAM)
LIST(aliases, struct aliasent, setaliasent(), getaliasent(), endaliasent(), ALIAS)
LIST(file_systems, struct fstab, say(out, "%d\n", setfsent()), getfsent(), endfsent(), say(out, "%s %s %s\n", e->fs_spec, e->fs_file, e->fs_type))
LIST(terminals, struct ttyent, say(out, "%d\n", setttyent()), getttyent(), say(out, "%d\n", endttyent()), say(out, "%s\n", e->ty_name))
LIST(shells, char, setusershell(), getusershell(), endusershell(), say(out, "%s\n", e))
LIST_R(groups_r, struct group, setgrent(), getgrent_r(&entry, room, size, &e), endgrent(), GROUP)
LIST_R(users_r, struct passwd, setpwent(), getpwent_r(&entry, room, size, &e), endpwent(), USER)
LIST_R(shadows_r, struct spwd, setspent(), getspent_r(&entry, room, size, &e), endspent(), SHADOW)
LIST_R(shadow_groups_r, struct sgrp, setsgent(), getsgent_r(&entry, room, size, &e), endsgent(), SHADOW_GROUP)
LIST_R(services_r, struct servent, setservent(0), getservent_r(&entry, room, size, &e), endservent(), SERVICE)
LIST_R(protocols_r, struct protoent, setprotoent(0), getprotoent_r(&entry, room, size, &e), endprotoent(), PROTOCOL)
LIST_R(networks_r, struct netent, setnetent(0), getnetent_r(&entry, room, size, &e, &error), endnetent(), NETWORK)
LIST_R(hosts_r, struct hostent, sethostent(0), gethostent_r(&entry, room, size, &e, &error), endhostent(), HOST)
LIST_R(programs_r, struct rpcent, setrpcent(0), getrpcent_r(&entry, room, size, &e), endrpcent(), PROGRAM)
LIST_R(aliases_r, struct aliasent, setaliasent(), getaliasent_r(&entry, room, size, &e), endaliasent(), ALIAS)
static void network_groups(int me, struct text *out)
{
    const char *names[] = { "one", "two", "three" };
    char *host, *user, *domain, room[1024];
    say(out, "%d", setnetgrent(names[me]));
    meet();
    while (getnetgrent(&host, &user, &domain))
        say(out, " %s", or_none(host));
    say(out, " %d\n", getnetgrent_r(&host, &user, &domain, room, sizeof room));
    say(out, "%d\n", innetgr(names[me], "host", NULL, NULL));
    endnetgrent();
}
static void file_systems_by_name(int me, struct text *out)
{
    const char *names[] = { "/", "/boot", "none" };
    struct fstab *e = getfsfile(names[me]), *other = getfsspec(names[me]);
    meet();
    say(out, "%d %d %d\n", !!e, !!other, !!getttynam(names[me]));
}

/* One entry each, of a name or number that is the program's. */
#define ANSWER(name, type, call, print)                   \
    static void name(int me, struct text *out)            \
    {                                                     \
        type *e = call;                                   \
        meet();                                           \
        if (e)                                            \
            print;                                        \
        else                                              \
            say(out, "none\n");                           \
    }
static const char *const people[] = { "root", "daemon", "bin" };
static const char *const ports[] = { "http", "ssh", "domain" };
static const int numbers[] = { 80, 22, 53 };
static const char *const carriers[] = { "tcp", "udp", "icmp" };
static const char *const calls[] = { "portmapper", "nfs", "mountd" };
static const char *const addresses[] = { "127.0.0.1", "127.0.0.2", "127.0.0.3" };
static const char *const nets[] = { "loopback", "default", "loopback" };
static const char *const shadow_lines[] = { "one:x:1:2:3::::", "second:y:4:5:6::::", "3:z:7:8:9::::" };
static const char *const group_lines[] = { "one:x:a:b\n", "second:x:cc:dd,ee\n", "3:x::\n" };
static const unsigned char loopbacks[][16] = { { 127, 0, 0, 1 }, { [15] = 1 }, { 127, 0, 0, 1 } };
ANSWER(group_name, struct group, getgrnam(people[me]), GROUP)
ANSWER(group_number, struct group, getgrgid(me), GROUP)
ANSWER(user_name, struct passwd, getpwnam(people[me]), USER)
ANSWER(user_number, struct passwd, getpwuid(me), USER)
ANSWER(shadow_name, struct spwd, getspnam(people[me]), SHADOW)
ANSWER(shadow_line, struct spwd, sgetspent(shadow_lines[me]), SHADOW)
ANSWER(shadow_group_name, struct sgrp, getsgnam(people[me]), SHADOW_GROUP)
ANSWER(shadow_group_line, struct sgrp, sgetsgent(group_lines[me]), SHADOW_GROUP)
ANSWER(service_name, struct servent, getservbyname(ports[me], NULL), SERVICE)
ANSWER(service_port, struct servent, getservbyport(htons(numbers[me]), "tcp"), SERVICE)
ANSWER(protocol_name, struct protoent, getprotobyname(carriers[me]), PROTOCOL)
ANSWER(protocol_number, struct protoent, getprotobynumber(me), PROTOCOL)
ANSWER(program_name, struct rpcent, getrpcbyname(calls[me]), PROGRAM)
ANSWER(program_number, struct rpcent, getrpcbynumber(100000 + me), PROGRAM)
ANSWER(alias_name, struct aliasent, getaliasbyname(people[me]), ALIAS)
ANSWER(host_name, struct hostent, gethostbyname(addresses[me]), HOST)
ANSWER(host_name_of_kind, struct hostent, gethostbyname2(addresses[me], AF_INET), HOST)
ANSWER(host_address, struct hostent, gethostbyaddr(loopbacks[me], me == 1 ? 16 : 4, me == 1 ? AF_INET6 : AF_INET), HOST)
ANSWER(net_name, struct netent, getnetbyname(nets[me]), NETWORK)
ANSWER(net_number, struct netent, getnetbyaddr(me == 1 ? 0 : 127, AF_INET), NETWORK)
static FILE *stream(const char *text) { return fmemopen((char *)text, strlen(text), "r"); }
static void streams(int me, struct text *out)
{
    const char *users[] = { "a:x:1:2::/a:/sh\n", "bb:x:3:4::/b:/sh\n", "c:x:5:6::/c:/sh\n" };
    const char *groups[] = { "g:x:1:a,b,c\n", "h:x:2:\n", "i:x:3:d\n" };
    const char *mounts[] = { "/a /b c d 0 1\n", "/e /f g h 2 3\n", "i j k l 4 5\n" };
    char *long_group = malloc(6000);
    memset(long_group, 'a' + me, 5998);
    memcpy(long_group, "long:x:7:", 9);
    strcpy(long_group + 5998, "\n");
    FILE *files[6] = { stream(users[me]), stream(groups[me]), stream(shadow_lines[me]), stream(group_lines[me]), stream(mounts[me]), stream(long_group) };
    struct passwd *user = fgetpwent(files[0]);
    struct group *group = fgetgrent(files[1]);
    struct spwd *shadow = fgetspent(files[2]);
    struct sgrp *shadow_group = fgetsgent(files[3]);
    struct mntent *mount = getmntent(files[4]);
    meet();
    say(out, "%s %d %s %d %s %s %s %s\n", user->pw_name, user->pw_uid, group->gr_name, group->gr_gid, shadow->sp_namp,
        shadow_group->sg_namp, mount->mnt_fsname, mount->mnt_opts);
    group = fgetgrent(files[5]);
    meet();
    say(out, "%s %zu %c %d\n", group->gr_name, strlen(group->gr_mem[0]), group->gr_mem[0][0], fgetgrent(files[5]) == NULL);
    for (int i = 0; i < 6; i++)
        fclose(files[i]);
    free(long_group);
}

