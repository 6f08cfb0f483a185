#include "rpc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static INIT_ONCE sockets = INIT_ONCE_STATIC_INIT;

static BOOL CALLBACK start_sockets(PINIT_ONCE once, PVOID parameter, PVOID *context) {
    WSADATA data;
    return WSAStartup(MAKEWORD(2, 2), &data) == 0;
}

char *rpc_utf8(const WCHAR *wide) {
    if (!wide)
        wide = L"";
    int size = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = calloc(1, size + 1);
    if (text)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, size, NULL, NULL);
    return text;
}

static DWORD send_all(SOCKET s, const char *data, int length) {
    while (length > 0) {
        int sent = send(s, data, length, 0);
        if (sent <= 0)
            return RPC_S_CALL_FAILED;
        data += sent;
        length -= sent;
    }
    return 0;
}

static DWORD receive_all(SOCKET s, char *data, int length) {
    while (length > 0) {
        int got = recv(s, data, length, 0);
        if (got <= 0)
            return RPC_S_CALL_FAILED;
        data += got;
        length -= got;
    }
    return 0;
}

DWORD rpc_line(SOCKET s, char *line, int size) {
    for (int i = 0; i < size; i++) {
        DWORD error = receive_all(s, line + i, 1);
        if (error)
            return error;
        if (line[i] == '\n') {
            line[i] = 0;
            return 0;
        }
    }
    return RPC_S_CALL_FAILED;
}

static DWORD dial(SOCKET *connection) {
    if (!InitOnceExecuteOnce(&sockets, start_sockets, NULL, NULL))
        return WSASYSNOTREADY;
    char address[128];
    DWORD length = GetEnvironmentVariableA("HNSEMU_ADDR", address, sizeof address);
    if (length == 0 || length >= sizeof address)
        strcpy(address, RPC_DEFAULT_ADDRESS);
    char *colon = strrchr(address, ':');
    if (!colon)
        return ERROR_INVALID_PARAMETER;
    *colon = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(colon + 1)), .sin_addr.s_addr = inet_addr(address)};
    SOCKET s = socket(AF_INET, SOCK_STREAM, 0);
    if (s == INVALID_SOCKET)
        return WSAGetLastError();
    /* Nobody listens: to a caller that is a service which is not running. */
    if (connect(s, (struct sockaddr *)&to, sizeof to)) {
        closesocket(s);
        return RPC_S_SERVER_UNAVAILABLE;
    }
    *connection = s;
    return 0;
}

DWORD rpc_open(const char *function, const GUID *id, UINT64 handle, const char *body, SOCKET *connection) {
    char guid[64] = "-", header[256];
    if (id)
        snprintf(guid, sizeof guid, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", (unsigned long)id->Data1, id->Data2,
                 id->Data3, id->Data4[0], id->Data4[1], id->Data4[2], id->Data4[3], id->Data4[4], id->Data4[5], id->Data4[6],
                 id->Data4[7]);
    int body_length = (int)strlen(body);
    int length = snprintf(header, sizeof header, "%s %s %llx %d\n", function, guid, (unsigned long long)handle, body_length);
    DWORD error = dial(connection);
    if (error)
        return error;
    error = send_all(*connection, header, length);
    if (!error)
        error = send_all(*connection, body, body_length);
    if (error)
        closesocket(*connection);
    return error;
}

static DWORD receive_text(SOCKET s, int length, char **text) {
    if (length < 0)
        return 0;
    *text = calloc(1, (size_t)length + 1);
    if (!*text)
        return ERROR_OUTOFMEMORY;
    return receive_all(s, *text, length);
}

DWORD rpc_call(const char *function, const GUID *id, UINT64 handle, const char *body, struct rpc_reply *reply) {
    memset(reply, 0, sizeof *reply);
    SOCKET s;
    DWORD error = rpc_open(function, id, handle, body, &s);
    if (error)
        return error;
    char header[256];
    unsigned int status;
    unsigned long long returned;
    int out, failure;
    error = rpc_line(s, header, sizeof header);
    if (!error && sscanf(header, "%x %llx %d %d", &status, &returned, &out, &failure) != 4)
        error = RPC_S_CALL_FAILED;
    if (!error)
        error = receive_text(s, out, &reply->out);
    if (!error)
        error = receive_text(s, failure, &reply->error);
    closesocket(s);
    if (error) {
        rpc_free(reply);
        return error;
    }
    reply->status = status;
    reply->handle = returned;
    return 0;
}

void rpc_free(struct rpc_reply *reply) {
    free(reply->out);
    free(reply->error);
    reply->out = reply->error = NULL;
}
