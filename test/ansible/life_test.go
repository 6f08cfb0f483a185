//go:build ansible

package ansible

import "testing"

// TestLife is the life of an installation. All chapters share a cluster, and each one installs what it needs where it
// is run alone (-run TestLife/certificates). The last ones leave it as the next test may want it.
func TestLife(t *testing.T) {
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"upgrade", upgradeUnderTraffic},
		{"mistakes", mistakesAreRefused},
		{"uninstall", uninstallLeavesNothing},
		{"plaintext", plainTCPIsAWarnedOfChoice},
		{"install", siteInstallsAndASecondRunChangesNothing},
		{"official", officialTestsPass},
		{"node", aNodeThatLostPowerComesBack},
		{"certificates", authoritiesAreRotatedUnderTraffic},
		{"centrals", anyCentralMayBeLost},
		{"restore", destroyedDatabasesAreRestored},
		{"members", membersAreReplaced},
		{"relay", relaysServeNodes},
		{"chassis", chassisHostsServeWindowsNodes},
		{"pods", weftRunsAsPods},
	} {
		t.Run(chapter.name, chapter.tell)
	}
}
