/* Adapters: Wine's answers, without those that are gone and with what Windows says of virtual ones. */
#include "iphlpapi.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#ifndef GAA_FLAG_INCLUDE_ALL_COMPARTMENTS
#define GAA_FLAG_INCLUDE_ALL_COMPARTMENTS 0x200
#endif

static WCHAR virtual_adapter[] = L"Hyper-V Virtual Ethernet Adapter";
static WCHAR container_adapter[] = L"Hyper-V Virtual Ethernet Container Adapter";
static WCHAR physical_adapter[] = L"Lab Ethernet Adapter";

static WCHAR *description(const struct host_interface *i) {
    if (i->compartment != HOST_COMPARTMENT)
        return container_adapter;
    return i->hardware ? physical_adapter : virtual_adapter;
}

/* An adapter whose index went to another, or to nobody, is one that Wine remembers. */
static const struct host_interface *living(const struct host_list *list, ULONG index, const WCHAR *alias) {
    const struct host_interface *i = find_interface(list, index);
    return i && !wcscmp(i->alias, alias) ? i : NULL;
}

/* Wine takes the addresses of an adapter for those of the first one that it remembers by that name. */
static void give_addresses_back(const struct host_list *list, IP_ADAPTER_ADDRESSES *adapters) {
    for (IP_ADAPTER_ADDRESSES *gone = adapters; gone; gone = gone->Next) {
        if (!gone->FirstUnicastAddress || living(list, gone->IfIndex ? gone->IfIndex : gone->Ipv6IfIndex, gone->FriendlyName))
            continue;
        for (IP_ADAPTER_ADDRESSES *a = adapters; a; a = a->Next) {
            if (a == gone || wcscmp(a->FriendlyName, gone->FriendlyName) || !living(list, a->IfIndex ? a->IfIndex : a->Ipv6IfIndex, a->FriendlyName))
                continue;
            if (!a->FirstUnicastAddress)
                a->FirstUnicastAddress = gone->FirstUnicastAddress;
        }
    }
}

ULONG WINAPI host_GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, IP_ADAPTER_ADDRESSES *adapters, ULONG *size) {
    ULONG(WINAPI * original)(ULONG, ULONG, void *, IP_ADAPTER_ADDRESSES *, ULONG *) = (void *)wine("GetAdaptersAddresses");
    if (!original)
        return ERROR_PROC_NOT_FOUND;
    ULONG status = original(family, flags, reserved, adapters, size);
    struct host_list list;
    if (status || list_interfaces(&list))
        return status;
    give_addresses_back(&list, adapters);
    IP_ADAPTER_ADDRESSES *previous = NULL;
    for (IP_ADAPTER_ADDRESSES *a = adapters; a; a = a->Next) {
        const struct host_interface *i = living(&list, a->IfIndex ? a->IfIndex : a->Ipv6IfIndex, a->FriendlyName);
        int visible = i && (i->compartment == current_compartment() || (flags & GAA_FLAG_INCLUDE_ALL_COMPARTMENTS));
        if (!visible && previous) { /* the first is the loopback, which never goes */
            previous->Next = a->Next;
            continue;
        }
        previous = a;
        if (!i || a->IfType == IF_TYPE_SOFTWARE_LOOPBACK)
            continue;
        a->Description = description(i);
        a->CompartmentId = i->compartment;
        a->Mtu = i->mtu;
        a->PhysicalAddressLength = i->mac_length;
        memcpy(a->PhysicalAddress, i->mac, sizeof i->mac);
    }
    free(list.items);
    return status;
}

static void complete(MIB_IF_ROW2 *row, const struct host_interface *i) {
    if (row->Type == IF_TYPE_SOFTWARE_LOOPBACK)
        return;
    wcscpy(row->Description, description(i));
    row->InterfaceAndOperStatusFlags.HardwareInterface = i->hardware != 0;
    row->InterfaceAndOperStatusFlags.ConnectorPresent = i->hardware != 0;
    row->MediaConnectState = i->connected ? MediaConnectStateConnected : MediaConnectStateDisconnected;
    row->PhysicalMediumType = i->hardware ? NdisPhysicalMedium802_3 : NdisPhysicalMediumUnspecified;
    row->Mtu = i->mtu;
    row->PhysicalAddressLength = i->mac_length;
    memcpy(row->PhysicalAddress, i->mac, sizeof i->mac);
}

static DWORD complete_table(DWORD status, MIB_IF_TABLE2 **table) {
    struct host_list list;
    if (status || list_interfaces(&list))
        return status;
    ULONG kept = 0;
    for (ULONG n = 0; n < (*table)->NumEntries; n++) {
        MIB_IF_ROW2 *row = &(*table)->Table[n];
        const struct host_interface *i = living(&list, row->InterfaceIndex, row->Alias);
        if (!i)
            continue;
        complete(row, i);
        if (kept != n)
            (*table)->Table[kept] = *row;
        kept++;
    }
    (*table)->NumEntries = kept;
    free(list.items);
    return status;
}

DWORD WINAPI host_GetIfTable2Ex(MIB_IF_TABLE_LEVEL level, MIB_IF_TABLE2 **table) {
    DWORD(WINAPI * original)(MIB_IF_TABLE_LEVEL, MIB_IF_TABLE2 **) = (void *)wine("GetIfTable2Ex");
    return original ? complete_table(original(level, table), table) : ERROR_PROC_NOT_FOUND;
}

DWORD WINAPI host_GetIfTable2(MIB_IF_TABLE2 **table) { return host_GetIfTable2Ex(MibIfTableNormal, table); }

DWORD WINAPI host_GetIfEntry2(MIB_IF_ROW2 *row) {
    DWORD(WINAPI * original)(MIB_IF_ROW2 *) = (void *)wine("GetIfEntry2");
    if (!original)
        return ERROR_PROC_NOT_FOUND;
    DWORD status = original(row);
    struct host_list list;
    if (status || list_interfaces(&list))
        return status;
    const struct host_interface *i = living(&list, row->InterfaceIndex, row->Alias);
    if (i)
        complete(row, i);
    free(list.items);
    return i ? status : ERROR_FILE_NOT_FOUND;
}

DWORD WINAPI host_SetIfEntry(MIB_IFROW *row) {
    if (row->dwAdminStatus != MIB_IF_ADMIN_STATUS_UP)
        return ERROR_NOT_SUPPORTED;
    return call("SetIfEntry", "%lu", row->dwIndex);
}
