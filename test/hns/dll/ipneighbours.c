/* Neighbours that somebody sets: Wine's cannot be. */
#include "iphlpapi.h"
#include <stdio.h>

static DWORD change_neighbour(const char *function, const MIB_IPNET_ROW2 *row) {
    ULONG index;
    char address[ADDRESS_SIZE], mac[2 * IF_MAX_PHYS_ADDRESS_LENGTH + 1] = "";
    DWORD error = interface_index(&row->InterfaceLuid, row->InterfaceIndex, &index);
    if (!error)
        error = format_address(&row->Address, address);
    if (error)
        return error;
    if (!row->PhysicalAddressLength || row->PhysicalAddressLength > IF_MAX_PHYS_ADDRESS_LENGTH)
        return ERROR_INVALID_PARAMETER;
    for (ULONG n = 0; n < row->PhysicalAddressLength; n++)
        sprintf(mac + 2 * n, "%02x", row->PhysicalAddress[n]);
    return call(function, "%lu %s %s %d", index, address, mac, (int)row->State);
}

DWORD WINAPI host_CreateIpNetEntry2(const MIB_IPNET_ROW2 *row) { return change_neighbour("CreateIpNetEntry2", row); }
DWORD WINAPI host_SetIpNetEntry2(const MIB_IPNET_ROW2 *row) { return change_neighbour("SetIpNetEntry2", row); }
