/* Two things of UDP that Wine 8 lacks. ws2_32.dll cannot be replaced as iphlpapi.dll is, since half of it is a Unix library; so
 * what it exports under their names is led here. Go looks functions up at run time, and loads bcryptprimitives.dll before it does.
 *
 * Go programs open no UDP socket where WSAIoctl refuses SIO_UDP_NETRESET, which Wine does not know.
 *
 * Of a socket that is bound to an address Wine makes one that is bound to the address's device and to all addresses, and Linux
 * lets no other be bound to 127.0.0.1 beside that. With SO_REUSEADDR it does. */
#include <winsock2.h>
#include <windows.h>

#define UDP_NETRESET _WSAIOW(IOC_VENDOR, 15)

static int WINAPI ownIoctl(SOCKET s, DWORD code, LPVOID in, DWORD inSize, LPVOID out, DWORD outSize, LPDWORD returned,
                           LPWSAOVERLAPPED overlapped, LPWSAOVERLAPPED_COMPLETION_ROUTINE routine) {
    if (code == UDP_NETRESET && overlapped == NULL) { /* Wine reports no such thing of a datagram */
        *returned = 0;
        return 0;
    }
    return WSAIoctl(s, code, in, inSize, out, outSize, returned, overlapped, routine);
}

static int WINAPI ownBind(SOCKET s, const struct sockaddr *address, int length) {
    int type = 0, size = sizeof type, yes = 1;
    if (getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&type, &size) == 0 && type == SOCK_DGRAM)
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, (char *)&yes, sizeof yes);
    return bind(s, address, length);
}

/* jumpAbove makes code above a module that jumps to a function: an export is a distance of 32 bits from its module. */
static BYTE *jumpAbove(BYTE *module, DWORD size, const void *function) {
    const UINT_PTR step = 0x10000;
    for (UINT_PTR at = ((UINT_PTR)module + size + step) & ~(step - 1); at < (UINT_PTR)module + 0x7fff0000; at += step) {
        BYTE *code = VirtualAlloc((void *)at, 16, MEM_RESERVE | MEM_COMMIT, PAGE_EXECUTE_READWRITE);
        if (code == NULL)
            continue;
        code[0] = 0x48, code[1] = 0xb8; /* mov rax, function */
        CopyMemory(code + 2, &function, sizeof function);
        code[10] = 0xff, code[11] = 0xe0; /* jmp rax */
        return code;
    }
    return NULL;
}

static void lead(BYTE *module, const char *name, const void *function) {
    IMAGE_NT_HEADERS *headers = (IMAGE_NT_HEADERS *)(module + ((IMAGE_DOS_HEADER *)module)->e_lfanew);
    IMAGE_EXPORT_DIRECTORY *exports = (IMAGE_EXPORT_DIRECTORY *)(module + headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress);
    DWORD *functions = (DWORD *)(module + exports->AddressOfFunctions), *names = (DWORD *)(module + exports->AddressOfNames);
    WORD *ordinals = (WORD *)(module + exports->AddressOfNameOrdinals);
    for (DWORD i = 0; i < exports->NumberOfNames; i++) {
        if (lstrcmpA((char *)module + names[i], name) != 0)
            continue;
        DWORD *entry = &functions[ordinals[i]], protection;
        BYTE *jump = jumpAbove(module, headers->OptionalHeader.SizeOfImage, function);
        if (jump == NULL || !VirtualProtect(entry, sizeof *entry, PAGE_READWRITE, &protection))
            return;
        *entry = (DWORD)(jump - module);
        VirtualProtect(entry, sizeof *entry, protection, &protection);
        return;
    }
}

void leadSockets(void) {
    BYTE *module = (BYTE *)GetModuleHandleA("ws2_32.dll");
    if (module == NULL)
        return;
    lead(module, "WSAIoctl", (void *)ownIoctl);
    lead(module, "bind", (void *)ownBind);
}
