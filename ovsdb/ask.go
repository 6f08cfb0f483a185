package ovsdb

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Ask connects to a server for as long as a question takes, of a cluster to any member. That the client comes and goes
// is not logged.
func Ask(ctx context.Context, config Config, question func(*Client) error) error {
	config.AnyMember = true
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = slog.New(warnings{config.Logger.Handler()})
	client, err := Connect(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	return question(client)
}

// warnings leaves out what is less than a warning.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// Role is what a server is to a database that it serves.
type Role struct {
	// Model is standalone, clustered or relay.
	Model string
	// Leader says whether it leads the database's cluster, and Connected whether it is in contact with the cluster's
	// majority. Both are true of a database without a cluster.
	Leader, Connected bool
}

// serverDatabase is what every ovsdb-server says of itself.
const serverDatabase = "_Server"

// RoleOf asks a server, which need not be one that [Ask] would take, for its role for a database.
func RoleOf(ctx context.Context, config Config, database string) (role Role, err error) {
	if config.Model, err = model.NewClientDBModel(serverDatabase, map[string]model.Model{}); err != nil {
		return role, err
	}
	err = Ask(ctx, config, func(client *Client) error {
		results, err := client.Transact(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: "Database",
			Columns: []string{"model", "leader", "connected"},
			Where:   []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, database)}})
		if err != nil {
			return err
		}
		if len(results) == 0 || len(results[0].Rows) == 0 {
			return fmt.Errorf("the server has no database %s", database)
		}
		row := results[0].Rows[0]
		role.Model, _ = row["model"].(string)
		role.Leader, _ = row["leader"].(bool)
		role.Connected, _ = row["connected"].(bool)
		return nil
	})
	return role, err
}
