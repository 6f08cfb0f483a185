#!/usr/bin/env bash
# clusters.sh [-lab NAME]: the tests of clusters, on three clusters at the same time, since most of their time is waiting.
# Tests that break what all nodes need have a cluster of their own, and so have those that break Windows nodes.
# A test that is in neither list runs on the third one. Each line tells which cluster it is of.
set -euo pipefail
cd "$(dirname "$0")/../.."

shared=(
    TestAChangeOfOnePortLeavesTheOthersAlone TestEveryComponentMayDie TestFrozenLeaderIsReplaced
    TestControllerRestartWritesNothing TestNewPodsSendNothingWhileTheControllerDies TestHostsOwnTrafficSurvives
)
windows=(
    TestWindowsPodsLeaveByASharedGateway TestWindowsSandboxes TestDoctorsTellTheSickFromTheWell TestExtensionIsEnabledAgain
    TestLostNetworkIsMadeAgain TestHostKeepsItsAddresses TestMissingDriverIsToldAndTheHostStaysReachable
    TestWrongKeysLeaveARunningNodeAlone TestBadAdaptersAreRefused TestWindowsNodeReboots
    TestBadCertificatesAreRefusedUntilRenewed TestClockSkewIsTold
)

named() { local IFS='|'; echo "^($*)\$"; }

program=$(mktemp -d)/e2e.test
trap 'rm -rf "$(dirname "$program")"' EXIT
go test -tags cluster -c -o "$program" ./test/e2e
# Each name has to be a test's: a test with another name would run on the third cluster without a word.
missing=$(comm -23 <(printf '%s\n' "${shared[@]}" "${windows[@]}" | sort) <(sed -nE 's/^func (Test\w+).*/\1/p' test/e2e/*_test.go | sort))
[ -z "$missing" ] || { echo "clusters.sh: no such tests:" $missing >&2; exit 2; }

part() { # NAME FLAGS...: runs a part of the tests on the cluster weft-test-NAME
    local name=$1
    shift
    cd test/e2e
    "$program" -lab "weft-test-$name" -test.parallel 8 -test.timeout 25m -test.v "$@" 2>&1 | sed -u "s/^/$name: /"
}

part shared -test.run "$(named "${shared[@]}")" & parts=$!
part windows -test.run "$(named "${windows[@]}")" & parts+=" $!"
part others -test.skip "$(named "${shared[@]}" "${windows[@]}")" & parts+=" $!"
failed=0
for part in $parts; do wait "$part" || failed=1; done
exit $failed
