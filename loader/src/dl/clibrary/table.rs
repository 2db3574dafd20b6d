//! The table of the C library's functions and variables that keep something for a process.

use Class::{Alone, Given, Own, Process};

/// How several programs use a function's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Each domain has its own.
    Own,
    /// One domain at a time uses it.
    Alone,
    /// It has no state but what the caller gives it, or what belongs to the calling thread.
    Given,
    /// It belongs to the process, or to the machine.
    Process,
}

/// Functions and variables of one kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// The names, between spaces.
    pub names: &'static str,
    pub class: Class,
    /// By what means; or why, and what to do instead.
    pub how: &'static str,
}

/// A table of rows: the class, the names, and how.
macro_rules! table {
    ($($class:ident $names:literal: $how:expr;)*) => {
        &[$(Row { names: $names, class: $class, how: $how }),*]
    };
}

/// All of them, in the order of the page.
pub(crate) const TABLE: &[Row] = table! {
    Own "getgrent getgrent_r setgrent endgrent": LIST;
    Own "getpwent getpwent_r setpwent endpwent": LIST;
    Own "getspent getspent_r setspent endspent": LIST;
    Own "getsgent getsgent_r setsgent endsgent": LIST;
    Own "getservent getservent_r setservent endservent": LIST;
    Own "getprotoent getprotoent_r setprotoent endprotoent": LIST;
    Own "getnetent getnetent_r setnetent endnetent": LIST;
    Own "gethostent gethostent_r sethostent endhostent": LIST;
    Own "getrpcent getrpcent_r setrpcent endrpcent": LIST;
    Own "getaliasent getaliasent_r setaliasent endaliasent": LIST;
    Own "getfsent getfsspec getfsfile setfsent endfsent": LIST;
    Own "getttyent getttynam setttyent endttyent": LIST;
    Own "getusershell setusershell endusershell": LIST;
    Own "setnetgrent getnetgrent getnetgrent_r endnetgrent": LIST;
    Own "getutent getutent_r getutid getutid_r getutline getutline_r setutent endutent utmpname": LIST;
    Own "getutxent getutxid getutxline setutxent endutxent utmpxname": LIST;
    Own "getgrnam getgrgid getpwnam getpwuid getspnam getsgnam sgetspent sgetsgent": ANSWER;
    Own "getservbyname getservbyport getprotobyname getprotobynumber": ANSWER;
    Own "gethostbyname gethostbyname2 gethostbyaddr getnetbyname getnetbyaddr": ANSWER;
    Own "getrpcbyname getrpcbynumber getaliasbyname": ANSWER;
    Own "fgetgrent fgetpwent fgetspent fgetsgent getmntent":
        "memory of the domain, filled by the `_r` form; the position is the stream's, which the caller gives";
    Own "rand srand random srandom initstate setstate":
        "a generator of the domain with glibc's first seed (`random_r`), so the numbers are glibc's";
    Own "drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48 seed48 lcong48":
        "parameters of the domain (`drand48_r` and its relatives)";
    Own "fcntl fcntl64 lockf lockf64": "record locks are the domain's: those of an open file description that it has for each file";
    Own "wait waitpid wait3 wait4 waitid forkpty": "the children that code of the domain has made, and no others";
    Own "mkstemp openpty": "as of all functions that open descriptors: a child that another domain forks does not have them";
    Own "strtok": "the rest of the text is the domain's (`strtok_r`)";
    Own "gmtime localtime ctime asctime":
        "the structure and the text are the domain's (`gmtime_r`, `localtime_r`)";
    Own "tzset localtime_r ctime_r mktime timelocal strftime strftime_l wcsftime wcsftime_l tzname timezone daylight __tzname __timezone __daylight":
        "the zone is that of `TZ` as the domain has set it, or as it was before other domains changed it. Where that is the process's, it is glibc's zone, under glibc's lock; else one of the domain's, by the crate tz";
    Own "getdate getdate_err": "`getdate_r`, with a structure and a variable of the domain";
    Own "syslog __syslog_chk vsyslog __vsyslog_chk openlog closelog setlogmask":
        "name, options, facility, mask and socket are the domain's. The loader puts the message together as glibc does";
    Own "gettext dgettext __dgettext dcgettext __dcgettext ngettext dngettext dcngettext textdomain bindtextdomain bind_textdomain_codeset":
        "the text domain and the bindings are the domain's. A domain's missing bindings come from the process";
    Own "setlocale localeconv": "a locale of the domain, which its threads use (`uselocale`)";
    Own "mblen mbtowc wctomb __wctomb_chk": "the state between calls is the domain's";
    Own "mbrlen __mbrlen mbrtowc __mbrtowc mbrtoc16 mbrtoc32 c16rtomb c32rtomb wcrtomb __wcrtomb_chk mbsrtowcs __mbsrtowcs_chk mbsnrtowcs __mbsnrtowcs_chk wcsrtombs __wcsrtombs_chk wcsnrtombs __wcsnrtombs_chk":
        "the state that counts where the caller gives none is the domain's";
    Own "getopt __posix_getopt getopt_long getopt_long_only optarg optind opterr optopt":
        "the place in the arguments and the variables are the domain's. The loader follows getopt(3)";
    Own "hcreate hsearch hdestroy": "a table of the domain (`hsearch_r`)";
    Own "re_comp re_exec re_set_syntax re_syntax_options": "an expression and a syntax of the domain";
    Own "lgamma lgammaf lgammal lgammaf32 lgammaf32x lgammaf64 lgammaf64x gamma gammaf gammal signgam __signgam":
        "the sign is the domain's (`lgamma_r`)";
    Own "ecvt fcvt qecvt qfcvt l64a ether_aton ether_ntoa inet_nsap_ntoa ttyname ptsname getlogin cuserid tmpnam getpass":
        "the text is in memory of the domain. `getpass` asks for one domain at a time, as there is one terminal";
    Own "crypt": "memory of the domain (`crypt_r`), where libcrypt exists once";
    Own "setenv unsetenv putenv clearenv": "for a domain with an environment of its own; else they change the process's under one lock";
    Own "pthread_key_create pthread_key_delete pthread_getspecific pthread_setspecific tss_create tss_delete tss_get tss_set":
        "keys of the loader's, which end with the domain";
    Alone "gmtime_r timegm strptime getdate_r":
        "the lock of glibc's time zone. A fork waits until no thread has it, so no child finds it locked. `getdate` takes the process's zone";
    Alone "innetgr": "the group of the network that it reads";
    Alone "rpmatch": "the expressions of the locale it was last called with";
    Alone "re_compile_pattern": "the syntax, which is the domain's while it compiles";
    Alone "ttyslot": "the list of terminals that it goes through";
    Alone "pututline pututxline login logout logwtmp updwtmp updwtmpx":
        "the file's name and position. Other processes are kept out by locks of the file, as in glibc";
    Given "strerror strsignal inet_ntoa": "a buffer of the calling thread (glibc 2.32)";
    Given "h_errno errno _res res_init herror": "a variable of the calling thread";
    Given "readdir readdir64 readdir_r fts_read fts_children fts_open fts_close": "the stream, which the caller has opened";
    Given "ftw nftw glob wordexp": "the call's own state. Names of users are looked up by the `_r` forms";
    Given "nl_langinfo": "the calling thread's locale, which is the domain's";
    Given "gcvt qgcvt getpw getsubopt basename __xpg_basename dirname ctermid": "memory of the caller, or a constant";
    Given "catopen catgets iconv_open iconv argz_add getgrouplist initgroups": "what the caller has opened, or the call's own state";
    Given "bindresvport": "a number from which it looks for a free port, under a lock of glibc's";
    Given "sleep": "nothing: it waits in the kernel";
    Given "mallinfo mallinfo2 valloc pvalloc": "the heap, which has locks of its own. The figures are the process's";
    Given "getlogin_r": "the caller's memory";
    Given "mktemp tempnam": "names that the kernel has nothing under, from a random number";
    Process "environ __environ _environ": "unless the domain has an environment of its own. glibc itself reads the process's";
    Process "exit _exit abort": "they end the process";
    Process "chdir fchdir umask chroot setuid setgid setpriority nice setrlimit getrusage":
        "the kernel keeps them by process. Use paths from a descriptor (`openat`)";
    Process "alarm ualarm setitimer getitimer sigaction signal sigvec siginterrupt": "signals and their handlers are the process's";
    Process "stdin stdout stderr fcloseall getchar_unlocked putchar_unlocked getwchar_unlocked putwchar_unlocked":
        "three streams, of the descriptors 0, 1 and 2. `fcloseall` closes all streams of the process. Open streams of your own";
    Process "program_invocation_name program_invocation_short_name __progname __progname_full":
        "they name the program that the process was started with";
    Process "error error_at_line error_message_count error_one_per_line error_print_progname":
        "they write for the program that the process was started with, count its messages, and end it. Write to `stderr`";
    Process "argp_parse argp_program_version argp_program_bug_address argp_program_version_hook argp_err_exit_status":
        "glibc reads the variables of the program that the process was started with. Give `argp_parse` a parser with an option `--version` of its own";
    Process "obstack_alloc_failed_handler obstack_exit_failure": "what to do without memory. Each obstack is the caller's";
    Process "fmtmsg addseverity": "one list of severities, under a lock of glibc's. Use numbers that no other program uses";
    Process "register_printf_function register_printf_specifier register_printf_modifier register_printf_type":
        "conversions of `printf` for all of the process, and addresses of code that a domain may take with it. Format to a text first";
    Process "mtrace muntrace mcheck mcheck_check_all mcheck_pedantic mprobe mallopt malloc_trim sbrk brk": "they are about the heap of the program's `malloc`. An interpreter has one of its own";
    Process "profil sprofil monstartup moncontrol": "one profile of the process, by SIGPROF. Use `perf`";
    Process "rcmd rcmd_af rexec rexec_af ruserok rexecoptions __check_rhosts_file __rcmd_errstr":
        "protocols of the last century, with ports that only root has. Start `ssh`";
    Process "setkey encrypt": "a key of DES in libcrypt, which new libraries cannot name any more. Use a library of ciphers";
    Process "login_tty daemon vhangup": "the terminal and the session are the process's";
    Process "sethostid sethostname setdomainname adjtime stime": "they are the machine's";
    Process "strfry": "a generator with a seed that nobody can set: its numbers mean nothing";
    Process "aio_init gai_cancel getaddrinfo_a":
        "threads of glibc that work for all of the process, each for a request that the caller gives";
    Process "sys_errlist sys_siglist h_errlist h_nerr _nl_msg_cat_cntr re_max_failures mallwatch loc1 loc2 locs":
        "constants, or variables that glibc alone uses";
};

const LIST: &str = "the domain's own copy of the list, which it reads when it asks for the first entry. One domain reads at a time";
const ANSWER: &str = "memory of the domain, filled by the `_r` form";
